/* A flame graph, of one moment or of what changed between two. heap.html and timeline.html have this text in them.

   A stack is [function numbers from the outermost in, values, values before]. Without values before, a box is as wide
   as its value. With them, it is as wide as all that the stacks through it gained and lost, its number is the sum of
   both, and its colour says which of them it was. */

const NAME = 0, SHORT = 1, PLACE = 2, MODULE = 3, KIND = 4;
const UNNAMED = 0, WRAPPER = 1;
const HUES = [197, 172, 148, 216, 238, 262, 90, 42];
const GAP_PX = 7, WIDTH_MIN_PX = 1.2, ROW_PX = matchMedia("(pointer: coarse)").matches ? 30 : 22;

function bytesText(size) {
    if (size === null) return "–";
    if (Math.abs(size) < 1024) return size + " B";
    for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
        size /= 1024;
        if (Math.abs(size) < 1024 || unit === "TiB") return (Math.abs(size) < 100 ? size.toFixed(1) : size.toFixed(0)) + " " + unit;
    }
}
function blocksText(count) { return count.toLocaleString("en-US") + (Math.abs(count) === 1 ? " block" : " blocks"); }
function signedText(value, text) { return value > 0 ? "+" + text : text; }
function shareText(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "–"; }
function svgElement(name, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
}
function hashOf(text) {
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return hash >>> 8;
}

class FlameGraph {
    /* `place` and `detailPlace` are elements; values are bytes where their index is even, else blocks. */
    constructor(place, detailPlace, frames, words) {
        Object.assign(this, { place, detailPlace, frames, words, measure: 0, searched: "", letterPx: 0, drawn: new Map() });
        this.onDraw = () => {};
        const nodeAt = event => event.target.closest("g")?.node;
        place.addEventListener("click", event => nodeAt(event) && this.zoom(nodeAt(event)));
        place.addEventListener("pointerover", event => event.pointerType !== "touch" && this.detail(nodeAt(event) || this.current));
        place.addEventListener("pointerleave", () => this.detail(this.current));
        place.addEventListener("focusin", event => {
            const node = nodeAt(event);
            if (node && node !== this.current) this.select(node, false);
        });
        place.addEventListener("keydown", event => this.key(event));
        document.addEventListener("keydown", event => {
            if (event.key === "Escape" && document.activeElement.type !== "search") this.zoom(this.root);
        });
        let lastWidth = place.clientWidth;
        new ResizeObserver(() => {
            if (place.clientWidth === lastWidth) return;
            lastWidth = place.clientWidth;
            this.draw();
        }).observe(place);
    }

    /* The calls as a tree. A node's values are those of all stacks through it. */

    setStacks(stacks) {
        const zoomed = this.zoomed ? this.pathTo(this.zoomed).slice(1).map(node => node.frame) : [];
        this.isChange = stacks.some(([, , before]) => before);
        this.root = this.makeNode(-1, null);
        for (const [frames, values, before] of stacks) {
            let node = this.root;
            this.add(node, values, before);
            for (const frame of frames) {
                if (!node.children.has(frame)) node.children.set(frame, this.makeNode(frame, node));
                node = node.children.get(frame);
                this.add(node, values, before);
            }
        }
        this.zoomed = this.root;
        for (const frame of zoomed) {
            const child = this.zoomed.children.get(frame);
            if (!child || !child.widths[this.measure]) break;
            this.zoomed = child;
        }
        this.current = this.zoomed;
    }
    makeNode(frame, parent) {
        return { frame, parent, depth: parent ? parent.depth + 1 : 0, values: [0, 0, 0, 0], widths: [0, 0, 0, 0], children: new Map() };
    }
    add(node, values, before) {
        values.forEach((value, i) => {
            const change = value - (before ? before[i] : 0);
            node.values[i] += change;
            node.widths[i] += Math.abs(change);
        });
    }
    childrenOf(node) {
        return [...node.children.values()].filter(child => child.widths[this.measure] > 0)
            .sort((a, b) => b.widths[this.measure] - a.widths[this.measure]);
    }
    pathTo(node) {
        const path = [];
        for (; node; node = node.parent) path.unshift(node);
        return path;
    }

    /* Words about a node. */

    nameOf(node) { return node.frame < 0 ? this.words.all : this.frames[node.frame][NAME]; }
    labelOf(node) { return node.frame < 0 ? this.words.all : this.frames[node.frame][SHORT]; }
    placeOf(node) {
        if (node.frame < 0) return "";
        const frame = this.frames[node.frame];
        return [frame[PLACE], frame[PLACE] === frame[MODULE] ? "" : frame[MODULE]].filter(Boolean).join(" · ");
    }
    valueText(value, which) {
        const text = which % 2 ? blocksText(value) : bytesText(value);
        return this.isChange ? signedText(value, text) : text;
    }
    detail(node) {
        const [name, value, place, share] = this.detailPlace.children, which = this.measure;
        const own = node.widths[which], hasBlocks = which % 2 === 0 && this.words.hasBlocks;
        name.textContent = this.nameOf(node);
        place.textContent = this.placeOf(node);
        value.textContent = this.valueText(node.values[which], which) +
            (hasBlocks ? " in " + this.valueText(node.values[which + 1], which + 1) : "");
        share.textContent = node === this.root ? "" : shareText(own, this.root.widths[which]) + " of " + this.words.whole +
            (node.parent !== this.root ? ", " + shareText(own, node.parent.widths[which]) + " of its caller" : "");
    }

    /* The drawing. */

    measureLetter(svg) {
        const probe = svgElement("text", {}, svg, "m".repeat(20));
        this.letterPx = probe.getComputedTextLength() / 20 || 7.3;
        probe.remove();
    }
    /* The end of a qualified name tells most, so outer qualifiers go first. */
    fit(label, width) {
        const room = Math.floor((width - GAP_PX) / this.letterPx);
        if (room < 2) return "";
        while (label.length > room) {
            const cut = label.indexOf("::");
            if (cut < 0 || label.startsWith("<")) return room < 3 ? "" : label.slice(0, room - 1) + "…";
            label = label.slice(cut + 2);
        }
        return label;
    }
    kindOf(node) {
        if (node.frame < 0) return "root";
        if (this.isChange) return node.values[this.measure] < 0 ? "shrunk" : "grown";
        const kind = this.frames[node.frame][KIND];
        return kind === UNNAMED ? "unnamed" : kind === WRAPPER ? "theirs" : "ours";
    }
    /* Related functions share a hue: those of one namespace, or of one file. The tint tells neighbours apart. Of a
       change, the colour is the stronger the more of it went one way. */
    colour(group, node) {
        if (this.isChange) {
            group.style.setProperty("--part", Math.abs(node.values[this.measure]) / node.widths[this.measure]);
            return;
        }
        const frame = this.frames[node.frame];
        const kin = frame[SHORT].includes("::") ? frame[SHORT].split("::")[0] : frame[PLACE].split(":")[0] || frame[MODULE];
        group.style.setProperty("--hue", HUES[hashOf(kin) % HUES.length]);
        group.style.setProperty("--tint", hashOf(frame[NAME]) % 7 - 3 + "%");
    }
    drawNode(svg, node, x, width, isAbove, isUnderHit) {
        const isHit = this.matches(node.frame), kinds = [this.kindOf(node)], which = this.measure;
        if (isAbove) kinds.push("above");
        if (isHit) kinds.push("hit");
        else if (this.searched && !isUnderHit) kinds.push("other");
        const group = svgElement("g", { class: kinds.join(" "), tabindex: "-1", role: "button", "aria-label":
            this.nameOf(node) + ", " + this.valueText(node.values[which], which) + ", " +
            shareText(node.widths[which], this.root.widths[which]) }, svg);
        if (node.frame >= 0) this.colour(group, node);
        svgElement("rect", { x: x.toFixed(2), y: node.depth * ROW_PX, width: Math.max(width, .5).toFixed(2), height: ROW_PX - 1 }, group);
        const label = this.fit(this.labelOf(node), width);
        if (label) svgElement("text", { x: (x + 5).toFixed(2), y: node.depth * ROW_PX + ROW_PX / 2 + 4 }, group, label);
        group.node = node;
        this.drawn.set(node, group);
        return isHit;
    }
    drawBelow(svg, node, x, width, isUnderHit) {
        let deepest = node.depth;
        const isHit = this.drawNode(svg, node, x, width, false, isUnderHit) || isUnderHit;
        for (const child of this.childrenOf(node)) {
            const part = width * child.widths[this.measure] / node.widths[this.measure];
            if (part < WIDTH_MIN_PX) break;
            deepest = Math.max(deepest, this.drawBelow(svg, child, x, part, isHit));
            x += part;
        }
        return deepest;
    }
    draw() {
        const hadFocus = this.place.contains(document.activeElement);
        this.place.textContent = "";
        this.drawn = new Map();
        if (!this.root.widths[this.measure]) {
            const empty = document.createElement("p");
            empty.className = "empty";
            empty.textContent = this.words.nothing;
            this.place.append(empty);
            this.zoomed = this.current = this.root;
            this.detail(this.root);
            this.onDraw();
            return;
        }
        const svg = svgElement("svg", { role: "group", "aria-label": "Flame graph" }, this.place);
        const width = svg.clientWidth || this.place.clientWidth;
        if (!this.letterPx) this.measureLetter(svg);
        let isUnderHit = false;
        for (const node of this.pathTo(this.zoomed).slice(0, -1)) {
            isUnderHit = this.drawNode(svg, node, 0, width, true, isUnderHit) || isUnderHit;
        }
        const deepest = this.drawBelow(svg, this.zoomed, 0, width, isUnderHit);
        svg.setAttribute("height", (deepest + 1) * ROW_PX);
        svg.setAttribute("viewBox", "0 0 " + width + " " + (deepest + 1) * ROW_PX);
        while (!this.drawn.has(this.current)) this.current = this.current.parent || this.root;
        this.select(this.current, hadFocus);
        this.onDraw();
    }
    select(node, takesFocus) {
        this.drawn.get(this.current)?.setAttribute("tabindex", "-1");
        this.current = node;
        const group = this.drawn.get(node);
        group.setAttribute("tabindex", "0");
        if (takesFocus) group.focus();
        this.detail(node);
    }
    zoom(node) {
        this.zoomed = this.current = node;
        this.draw();
    }
    setMeasure(which) {
        this.measure = which;
        while (this.zoomed !== this.root && !this.zoomed.widths[which]) this.zoomed = this.zoomed.parent;
        this.draw();
    }

    /* Search: the share of the whole that runs through a call that matches. */

    matches(number) {
        if (!this.searched || number < 0) return false;
        const frame = this.frames[number];
        return [frame[NAME], frame[SHORT], frame[PLACE], frame[MODULE]].join("\n").toLowerCase().includes(this.searched);
    }
    search(text) {
        this.searched = text.trim().toLowerCase();
        this.draw();
    }
    foundBelow(node, what) {
        if (this.matches(node.frame)) return node[what][this.measure];
        let sum = 0;
        for (const child of node.children.values()) sum += this.foundBelow(child, what);
        return sum;
    }

    /* Keys. */

    neighbour(node, step) {
        if (!node.parent) return null;
        const shown = this.childrenOf(node.parent).filter(child => this.drawn.has(child));
        return shown[shown.indexOf(node) + step];
    }
    key(event) {
        const node = this.current;
        const next = {
            ArrowUp: () => node.parent, ArrowDown: () => this.childrenOf(node).find(child => this.drawn.has(child)),
            ArrowLeft: () => this.neighbour(node, -1), ArrowRight: () => this.neighbour(node, 1), Home: () => this.root,
        }[event.key];
        if (next) {
            event.preventDefault();
            const found = next();
            if (found) this.select(found, true);
        } else if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            this.zoom(node);
        }
    }
}
