// player.js: plays a film of 3,000 frames, each of which an add-on decodes.
const addon = require(process.argv[2]);
const titles = [];
let sum = 0;
for (let number = 0; number < 3000; number++) {
    sum += addon.decode(number);
    if (number % 10 === 0) titles.push("scene " + number);
}
console.log(titles.length, sum);
