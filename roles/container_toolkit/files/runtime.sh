# Tell a container runtime of NVIDIA's. usage: sh runtime.sh check|apply docker|containerd DEFAULT
# DEFAULT is true where every container is to be started with it. Prints what that changes, or
# would.
set -eu
mode=$1 runtime=$2 default=$3

# Whether the runtime, as it runs or would start, has NVIDIA's.
has() {
    case "$runtime" in
    docker)
        python3 -c '
import json, sys
told = json.load(open("/etc/docker/daemon.json"))
sys.exit("nvidia" not in told.get("runtimes", {}))' 2>/dev/null || return 1
        systemctl -q is-active docker || return 0
        docker info --format '{{json .Runtimes}}' | grep -q '"nvidia"'
        ;;
    containerd)
        containerd config dump | grep -q '[.]runtimes[.]nvidia\]' || return 1
        systemctl -q is-active containerd || return 0
        since=$(systemctl show --property=ActiveEnterTimestamp --value containerd)
        # What it read when it started may be of the same second.
        [ -z "$(find /etc/containerd -name '*.toml' -newermt "$since + 1 sec")" ]
        ;;
    esac
}

# Whether it starts every container with it.
is_default() {
    case "$runtime" in
    docker) grep -Eq '"default-runtime": *"nvidia"' /etc/docker/daemon.json ;;
    containerd) containerd config dump | grep -Eq "default_runtime_name = [\"']nvidia[\"']" ;;
    esac
}

if has && { [ "$default" = false ] || is_default; }; then exit 0; fi
echo "$runtime: told of NVIDIA's runtime"
[ "$mode" = apply ] || exit 0
if [ "$default" = true ]; then set -- --set-as-default; else set --; fi
nvidia-ctk runtime configure --runtime="$runtime" "$@" >&2
systemctl -q is-active "$runtime" || exit 0
# Docker takes runtimes from its file on a reload (dockerd reference, Daemon configuration file).
case "$runtime" in
docker) systemctl reload docker ;;
containerd) systemctl restart containerd ;;
esac
