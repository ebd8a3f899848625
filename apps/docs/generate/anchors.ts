/** The anchor of a name. The site looks for anchors in small letters only, whatever a link says. */
export function anchorOf(name: string): string {
  return name.toLowerCase().replaceAll(/[_$]+/g, '-');
}

/** The anchor of each name on one page; names whose anchors would be the same are numbered. */
export function anchorsOf(names: readonly string[]): ReadonlyMap<string, string> {
  const anchors = new Map<string, string>();
  const taken = new Set<string>();
  for (const name of names) {
    if (anchors.has(name)) continue;
    const plain = anchorOf(name);
    let anchor = plain;
    for (let count = 2; taken.has(anchor); count += 1) anchor = `${plain}-${count}`;
    taken.add(anchor);
    anchors.set(name, anchor);
  }
  return anchors;
}
