/**
 * Returns the anchor of a name such as `nn.Linear`: its last part in lower case, because the site only looks for such
 * anchors, whatever a link says.
 */
export function anchorOf(name: string): string {
  return name.replace(/^.*\./, '').toLowerCase().replaceAll(/[_$]+/g, '-');
}

/** Returns the anchor of each name of a page, in order. Names that would have the same anchor are numbered. */
export function anchorsOf(names: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    const plain = anchorOf(name);
    let anchor = plain;
    for (let count = 2; taken.has(anchor); count += 1) anchor = `${plain}-${count}`;
    taken.add(anchor);
    return anchor;
  });
}
