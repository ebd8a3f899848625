/**
 * Returns the entropy of single bytes in nats. A model that only knows how often each byte occurs reaches this loss.
 */
export function unigramEntropy(bytes: Uint8Array): number {
  const counts = new Float64Array(256);
  for (const byte of bytes) counts[byte] = (counts[byte] ?? 0) + 1;
  let entropy = 0;
  for (const count of counts)
    if (count > 0) entropy -= (count / bytes.length) * Math.log(count / bytes.length);
  return entropy;
}
