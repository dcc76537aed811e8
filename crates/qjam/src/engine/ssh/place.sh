# Finds a place for the worker, takes its bytes if they are not there, and becomes it.
#
# Arguments: hash and length of the executable, system and machine it is for, and whether to copy it in any case.
h=$1; size=$2; machine="$3 $4"; fresh=$5;
here=$(uname -s -m);
say hello "$here";
if [ "$here" = "$machine" ]; then :; else exit 0; fi;
need=$((size / 1024 + 1));
mask=$(umask); umask 077;

become() {
  umask "$mask";
  say start "$d";
  QJAM_SUPERVISOR="1;$n;$h;$d"; export QJAM_SUPERVISOR;
  exec "$w";
};

# Why a folder will not do; nothing if it will. Whether programs run there is found out by running one.
trouble() {
  mkdir -p "$b" 2>&1 || return;
  if [ -O "$d" ] && [ -O "$b" ]; then :; else echo it belongs to somebody else; return; fi;
  chmod 700 "$d" "$b" 2>&1 || return;
  if { echo "exit 0" > "$t"; } 2>&1; then
    { chmod 700 "$t" && "$t"; } 2>/dev/null || echo no program may run there: mounted noexec;
  fi;
  rm -f "$t";
};

try() {
  d=$1;
  if [ -z "$d" ]; then return; fi;
  b=$d/bin; w=$b/worker-$h; t=$w.$n.tmp;
  if [ -h "$d" ] || [ -h "$b" ]; then say no "$d:" it is a symbolic link; return; fi;
# The worker itself finds out whether it is whole.
  if [ -z "$fresh" ] && [ -x "$w" ] && [ -O "$d" ] && [ -O "$b" ]; then become; fi;
  why=$(trouble);
  if [ -n "$why" ]; then say no "$d:" $why; return; fi;
# What is no number fails the test like one that is large enough.
  free=$(df -Pk "$d" 2>/dev/null | { read x; read x x x free x; echo "$free"; });
  if [ "$free" -lt "$need" ] 2>/dev/null; then
    say no "$d:" full: "$free" KiB free, "$need" KiB needed; return;
  fi;
  say want "$d";
# Whatever happens to the file, all bytes are taken, so that they are not mistaken for something else later.
  why=$(head -c "$size" | { { cat > "$t"; } 2>&1; cat > /dev/null; });
  have=$(wc -c 2>/dev/null < "$t");
  if [ "$have" -eq "$size" ] 2>/dev/null && chmod 700 "$t" && mv -f "$t" "$w"; then become; fi;
  rm -f "$t";
# Too little came, and not for want of room: whoever sent it is gone.
  if [ -z "$why" ] && [ "$have" -lt "$size" ] 2>/dev/null; then exit 1; fi;
  say no "$d:" "${have:-0}" of "$size" bytes could be written: $why;
};

try "$home";
u=$(id -u);
for place in /var/tmp/qjam-$u /tmp/qjam-$u /dev/shm/qjam-$u; do try "$place"; done;
say nowhere;
