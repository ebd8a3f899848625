/**
 * A colour that ranks share which were told the same ranks; others are most likely in another
 * group, whose size then tells them apart (FNV-1a of 31 bits, which every kind of group takes).
 */
export function colorOf(lists: readonly (readonly number[])[]): number {
  let hash = 0x811c9dc5;
  for (const list of lists) {
    for (const number of [list.length, ...list]) {
      hash = Math.imul(hash ^ number, 0x01000193);
    }
  }
  return hash >>> 1;
}
