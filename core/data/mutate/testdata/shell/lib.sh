larger() {
	if [ "$1" -lt 0 ]; then
		echo 0
	elif [ "$1" -gt "$2" ]; then
		echo "$1"
	else
		echo "$2"
	fi
}
