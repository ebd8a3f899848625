import { currentSession } from '@shardwise/core/extend';

/**
 * Whether any rank of the axes has more to generate. Ranks that have parts of a model must call it equally often, so
 * they agree on it before each call. It is a collective of host memory.
 */
export async function anyGoesOn(goesOn: boolean, axes: readonly string[]): Promise<boolean> {
  const flag = Int32Array.of(Number(goesOn));
  for (const axis of axes) {
    const bytes = new Uint8Array(flag.buffer);
    await currentSession().mesh.group(axis).allReduce({ bytes, dtype: 'i32' }, 'max');
  }
  return flag[0] === 1;
}

/** Gives all ranks of the axes the tokens that their first rank has chosen. */
export async function tokensOfFirst(
  tokens: readonly number[],
  axes: readonly string[],
): Promise<readonly number[]> {
  const all = Int32Array.from(tokens);
  for (const axis of axes) {
    const bytes = new Uint8Array(all.buffer);
    await currentSession().mesh.group(axis).broadcast({ bytes, dtype: 'i32' }, 0);
  }
  return [...all];
}
