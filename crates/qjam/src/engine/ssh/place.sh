# Finds a place for the worker, takes its bytes if they are not there, and becomes it.
#
# Arguments: hash and length of the executable, system and machine it is for, after how many seconds without a byte a copy is
# given up, and whether to copy it in any case.
#
# Other users of this host may have been in a place before us, and may be watching: a folder or file is used only if it is ours
# and nobody else can write to it, and nothing that is there already is written to (noclobber opens new files alone).
h=$1; size=$2; machine="$3 $4"; stall=$5; fresh=$6;
here=$(uname -s -m);
say hello "$here";
if [ "$here" = "$machine" ]; then :; else exit 0; fi;
need=$((size / 1024 + 1));
mask=$(umask); umask 077;
set -C;
u=$(id -u);
# A group of our own has no others in it.
g=none; me=$(id -un 2>/dev/null);
if [ -n "$me" ] && [ "$me" = "$(id -gn 2>/dev/null)" ]; then g=$(id -g); fi;

become() {
  umask "$mask";
  say start "$d";
  QJAM_SUPERVISOR="1;$n;$h;$d"; export QJAM_SUPERVISOR;
  exec "$w";
};

# Whether something of this kind (d or -) is ours, and nobody else can write to it.
ours() {
  if [ -h "$1" ]; then return 1; fi;
  set -- "$2" $(ls -ldn "$1" 2>/dev/null);
  case "$2" in "$1"????-??-?*) [ "$4" = "$u" ];; *) return 1;; esac;
};

# Whether nobody else can put something in the place of what lies in a folder.
shut() {
  set -- $(ls -ldn "$1/." 2>/dev/null);
  case "$1" in
    d????????[tT]*) ;;
    d????-??-?*) ;;
    d????w??-?*) if [ "$4" = "$g" ]; then :; else return 1; fi;;
    *) return 1;;
  esac;
  [ "$3" = 0 ] || [ "$3" = "$u" ];
};

# Whether a file is what was sent, where there is a tool to tell. The worker compares its hash in any case, once it runs.
whole() {
  if command -v b3sum > /dev/null 2>&1; then
    [ "$(b3sum "$1" 2>/dev/null | { read x y; echo "$x"; })" = "$h" ];
  fi;
};

# Why a folder will not do; nothing if it will. Whether programs run there is found out by running one.
trouble() {
  mkdir -p "$b" 2>&1 || return;
  if [ -h "$d" ] || [ -h "$b" ]; then echo it is a symbolic link; return; fi;
  if [ -O "$d" ] && [ -O "$b" ]; then :; else echo it belongs to somebody else; return; fi;
  if shut "${d%/*}"; then :; else echo others can write to the folder it is in; return; fi;
  chmod 700 "$d" "$b" 2>&1 || return;
  if ours "$d" d && ours "$b" d; then :; else echo others can write to it; return; fi;
  if { echo "exit 0" > "$t"; } 2>&1; then
    { chmod 700 "$t" && "$t"; } 2>/dev/null || echo no program may run there: mounted noexec;
  fi;
  rm -f "$t";
};

# Ends everything here when no byte of the copy has come for a while: the link may be down for as long as it likes. Ends itself
# when the copy has got its name, or is gone.
guard() {
  last=none; quiet=0;
  while sleep 1 && [ -e "$t" ]; do
    now=$(wc -c 2>/dev/null < "$t");
    if [ "$now" = "$last" ]; then quiet=$((quiet + 1)); else quiet=0; fi;
    last=$now;
    if [ "$quiet" -ge "$stall" ]; then break; fi;
  done;
  if [ -e "$t" ]; then :; else return; fi;
  rm -f "$t";
# The group is ours if we lead it, as under sshd.
  set -- $(cat /proc/$$/stat);
  if [ "$5" = "$$" ]; then kill -s KILL 0; fi;
  kill -s KILL "$$";
};

try() {
  d=$1;
  if [ -z "$d" ]; then return; fi;
  b=$d/bin; w=$b/worker-$h; t=$w.$n.tmp;
  if [ -h "$d" ] || [ -h "$b" ]; then say no "$d:" it is a symbolic link; return; fi;
  if [ -z "$fresh" ] && [ -x "$w" ] && shut "${d%/*}" && ours "$d" d && ours "$b" d && ours "$w" - && whole "$w"; then
    become;
  fi;
  why=$(trouble);
  if [ -n "$why" ]; then say no "$d:" $why; return; fi;
# What is no number fails the test like one that is large enough.
  free=$(df -Pk "$d" 2>/dev/null | { read x; read x x x free x; echo "$free"; });
  if [ "$free" -lt "$need" ] 2>/dev/null; then
    say no "$d:" full: "$free" KiB free, "$need" KiB needed; return;
  fi;
  why=$({ : > "$t"; } 2>&1);
  if [ -n "$why" ]; then say no "$d:" $why; return; fi;
  say want "$d";
  guard < /dev/null > /dev/null 2>&1 &
# Whatever happens to the file, all bytes are taken, so that they are not mistaken for something else later.
  why=$(head -c "$size" | { { cat >> "$t"; } 2>&1; cat > /dev/null; });
  have=$(wc -c 2>/dev/null < "$t");
  if [ -h "$w" ] || [ -d "$w" ]; then rm -rf "$w"; fi;
  if [ "$have" -eq "$size" ] 2>/dev/null && chmod 700 "$t" && mv -f "$t" "$w"; then become; fi;
  rm -f "$t";
# Too little came, and not for want of room: whoever sent it is gone.
  if [ -z "$why" ] && [ "$have" -lt "$size" ] 2>/dev/null; then exit 1; fi;
  say no "$d:" "${have:-0}" of "$size" bytes could be written: $why;
};

try "$home";
for place in /var/tmp/qjam-$u /tmp/qjam-$u /dev/shm/qjam-$u; do try "$place"; done;
say nowhere;
