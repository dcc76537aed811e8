# Finds a place for the worker, takes its bytes if they are not there, and becomes it.
#
# Arguments: hash and length of the executable, the machine it is for, and whether to copy it in any case.
h=$1; size=$2; machine=$3; fresh=$4;
here=$(uname -s)-$(uname -m);
say hello "$here";
if [ "$here" = "$machine" ]; then :; else exit 0; fi;
need=$((size / 1024 + 1));
mask=$(umask); umask 077;
for d in "$home" /var/tmp/qjam-$u /tmp/qjam-$u /dev/shm/qjam-$u; do
  if [ -z "$d" ]; then continue; fi;
  b=$d/bin; w=$b/worker-$h; t=$w.$n.tmp;
  why=$(
    if [ -h "$d" ] || [ -h "$b" ]; then echo a symbolic link; exit; fi;
    mkdir -p "$b" 2>&1 || exit;
    if [ -O "$d" ] && [ -O "$b" ]; then :; else echo it belongs to somebody else; exit; fi;
    chmod 700 "$d" "$b" 2>&1 || exit;
    if { echo "exit 0" > "$t"; } 2>&1; then
      { chmod 700 "$t" && "$t"; } 2>&1 || echo no program may run there: mounted noexec;
    fi;
    rm -f "$t";
  );
  if [ -n "$why" ]; then say no "$d:" $why; continue; fi;
# A length that cannot be found is no number, and then the test fails like one that finds a difference.
  have=$(wc -c 2>/dev/null < "$w");
  if [ -z "$fresh" ] && [ -x "$w" ] && [ "$have" -eq "$size" ] 2>/dev/null; then :; else
    free=$(df -Pk "$d" 2>/dev/null | { read x; read x x x free x; echo "$free"; });
    if [ "$free" -lt "$need" ] 2>/dev/null; then
      say no "$d:" full: "$free" KiB free, "$need" KiB needed; continue;
    fi;
    say want "$d";
# Whatever happens to the file, all bytes are taken, so that they are not mistaken for something else later.
    why=$(head -c "$size" | { { cat > "$t"; } 2>&1; cat > /dev/null; });
    have=$(wc -c 2>/dev/null < "$t");
    if [ "$have" -eq "$size" ] 2>/dev/null && chmod 700 "$t" && mv -f "$t" "$w"; then :; else
      rm -f "$t"; say no "$d:" "${have:-no}" of "$size" bytes could be written: $why; continue;
    fi;
  fi;
  umask "$mask";
  say start "$d";
  QJAM_SUPERVISOR="1;$n;$h;$d"; export QJAM_SUPERVISOR;
  exec "$w";
done;
say nowhere;
