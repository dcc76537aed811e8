// A page in a file has its data in it.
new Page().show(JSON.parse(by("data").textContent));
