/** Returns the loss, in nats per byte, of a model that only knows how often each byte follows each other byte. */
export function bigramEntropy(bytes: Uint8Array): number {
  const pairs = new Map<number, number>();
  const firsts = new Map<number, number>();
  for (let index = 1; index < bytes.length; index++) {
    const [first = 0, second = 0] = bytes.subarray(index - 1, index + 1);
    const pair = 256 * first + second;
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
    firsts.set(first, (firsts.get(first) ?? 0) + 1);
  }
  let entropy = 0;
  for (const [pair, count] of pairs) {
    const share = count / (firsts.get(pair >> 8) ?? count);
    entropy -= (count / (bytes.length - 1)) * Math.log(share);
  }
  return entropy;
}
