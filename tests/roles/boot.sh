# The first process of a simulated machine: give it a kernel's files of its own, become systemd.
# usage: sh boot.sh FOLDER
set -eu
folder=$1
kernel=$(uname -r)

mount -t proc proc /proc
mount -t tmpfs -o mode=755 hwlab /run
mkdir -p /run/lock /run/sshd /run/hwlab
# What a role writes to /sys and /proc/sys lands in files of this machine, not in the kernel.
mount -t tmpfs -o mode=755 hwlab /sys
cp -a "$folder/tree/sys/." /sys/
mkdir -p /sys/fs/cgroup /sys/module
mount -t cgroup2 hwlab /sys/fs/cgroup
for part in vm kernel net/core; do
    mkdir -p "/run/hwlab/$part"
    cp -r "/proc/sys/$part/." "/run/hwlab/$part/" 2>/dev/null || : # some may only be written
    cp -r "$folder/tree/proc/sys/$part/." "/run/hwlab/$part/" 2>/dev/null || : # none of its own
done
cat /proc/sys/kernel/random/uuid >/run/hwlab/kernel/random/boot_id
for part in vm kernel net/core; do
    chmod -R u+w "/run/hwlab/$part"
    mount --bind "/run/hwlab/$part" "/proc/sys/$part"
done
mount --bind "$folder/tree/proc/cpuinfo" /proc/cpuinfo
mkdir -p /var/lib/hwlab
[ -e /var/lib/hwlab/cmdline ] || cp "$folder/tree/proc/cmdline" /var/lib/hwlab/cmdline
# What GRUB's menu says counts from this boot on, and so does what is to be loaded at boot.
[ ! -e /boot/grub/grub.cfg ] || sed 's/^linux /BOOT_IMAGE=/' /boot/grub/grub.cfg >/var/lib/hwlab/cmdline
mount --bind /var/lib/hwlab/cmdline /proc/cmdline
[ ! -e "/lib/modules/$kernel/updates/dkms/nvidia.ko" ] || modprobe nvidia
for module in $(sed '/^#/d' /etc/modules-load.d/hwcheck-*.conf 2>/dev/null); do modprobe "$module"; done

# Nothing of this machine's own services; what a role enables starts at the next boot.
if [ ! -e /var/lib/hwlab/trimmed ]; then
    rm -rf /etc/systemd/system/*.wants /usr/lib/systemd/system/*.wants /usr/lib/systemd/system-generators
    mkdir -p /etc/systemd/system/sysinit.target.wants /etc/modprobe.d
    ln -s /usr/lib/systemd/system/systemd-sysctl.service /etc/systemd/system/sysinit.target.wants/
    ln -sf /usr/lib/systemd/system/multi-user.target /etc/systemd/system/default.target
    cat >/etc/systemd/system/hwlab-sshd.service <<UNIT
[Service]
ExecStart=/usr/sbin/sshd -D -e -f $folder/sshd_config
KillMode=process
UNIT
    mkdir -p /etc/systemd/system/multi-user.target.wants
    for unit in hwlab-sshd hwlab-modules; do
        ln -s "../$unit.service" /etc/systemd/system/multi-user.target.wants/
    done
    touch /var/lib/hwlab/trimmed
fi
exec env -i container=hwlab PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console
