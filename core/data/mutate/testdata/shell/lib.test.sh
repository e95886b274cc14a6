. ./lib.sh
check() {
	if [ "$2" = "$3" ]; then
		echo "PASSED lib.test.sh::$1"
	else
		echo "FAILED lib.test.sh::$1 - got $2, want $3"
		failed=1
	fi
}
check first "$(larger 3 2)" 3
check second "$(larger 2 3)" 3
check negative "$(larger -1 -2)" 0
exit ${failed:-0}
