# Say why the card does not run with the installed modules; nothing where it does, or is not driven.
set -u
loaded=$(cat /sys/module/mlx5_core/srcversion 2>/dev/null) || exit 0
installed=$(modinfo -F srcversion mlx5_core 2>/dev/null)
[ "$loaded" = "$installed" ] || echo "mlx5_core $loaded is loaded, $installed is installed"
