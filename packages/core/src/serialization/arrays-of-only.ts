import { currentSession } from '../rank.ts';
import type { HostArrays } from './host-array.ts';
import type { Layout } from '../spec/layout.ts';

/**
 * Brings arrays that only one rank of an axis has to all ranks of the axis. It is a collective. `own` are the arrays of
 * this rank. They are the result for layouts without `only`.
 */
export async function arraysOfOnly(
  { only }: Pick<Layout, 'only'>,
  own: HostArrays | undefined,
): Promise<HostArrays | undefined> {
  if (only === undefined) return own;
  const group = currentSession().mesh.group(only.axis);
  if (group.size === 1) return own;
  const { decodeSafetensors, encodeSafetensors } = await import('./safetensors.ts');
  const isHere = group.rank === only.rank;
  const mine = isHere && own !== undefined ? encodeSafetensors(own) : new Uint8Array();
  const length = Float64Array.of(mine.byteLength);
  await group.broadcast({ bytes: new Uint8Array(length.buffer), dtype: 'f64' }, only.rank);
  const [byteLength = 0] = length;
  if (byteLength === 0) return undefined;
  const bytes = isHere ? mine : new Uint8Array(byteLength);
  await group.broadcast({ bytes, dtype: 'u8' }, only.rank);
  return isHere ? own : decodeSafetensors(bytes).tensors;
}
