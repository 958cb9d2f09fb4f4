// Changes an element into another one and keeps all that is the same: focus, selection, what is open or scrolled.

const OWN = new Set(["open"]); // what a reader opened stays open

export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !OWN.has(name)) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const named = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = named.get(child.id) ?? (place && isAlike(place, child) ? place : null);
    if (!same) {
      old.insertBefore(document.adoptNode(child), place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    morph(same, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// Whether one node may become the other; a node with a name of its own becomes no other.
function isAlike(one, other) {
  return one.nodeName === other.nodeName && !one.id && !other.id;
}
