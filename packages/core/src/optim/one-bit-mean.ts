import type { AxisParams } from '../spec/op.ts';
import { allGather, allToAll } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { packSigns, unpackSigns } from './sign-bits.ts';

/** What compression has left out so far, which is added to what is sent next. */
export interface CompressionErrors {
  /** The error of what this rank sends. Shape: that of the value. */
  readonly worker: Tensor;
  /** The error of the part that this rank averages. Shape: [oneBitPartElements]. */
  readonly server: Tensor;
}

/** Elements that each rank averages: whole bytes of signs. */
export function oneBitPartElements(elements: number, ranks: number): number {
  return Math.ceil(elements / (8 * ranks)) * 8;
}

/**
 * The mean over ranks of a value of which each sends signs and one magnitude, in both of the rounds
 * (to the rank that averages a part, and back), with error feedback; 1/32 of the bytes of an
 * all-reduce in f32 (Tang et al. 2021, "1-bit Adam", algorithm 1). Updates the errors. The same bits
 * on all ranks. Shape: value N -> N.
 */
export function oneBitMean(
  value: Tensor,
  { worker, server }: CompressionErrors,
  { axis, size, rank }: AxisParams,
): Tensor {
  const { shape, numel } = value;
  const part = oneBitPartElements(numel, size);
  const missing = part * size - numel;
  const cut = (padded: Tensor): Tensor => padded.slice(0, 0, numel).reshape(shape);
  const own = compress(value.add(worker).reshape([numel]).pad([0], [missing]));
  worker.assign(value.add(worker).sub(cut(own.value)));
  const arrived = unpackSigns(allToAll(own.signs, axis, 0, 0)).reshape([size, part]);
  const magnitudes = allGather(own.magnitude, axis, 0).reshape([size, 1]);
  const average = arrived.mul(magnitudes).mean(0).add(server);
  const mine = compress(average);
  // Padding has no error, so that a checkpoint need not keep it.
  const elements = Math.min(part, Math.max(0, numel - rank * part));
  const error = average.sub(mine.value).slice(0, 0, elements);
  server.assign(elements === part ? error : error.pad([0], [part - elements]));
  const signs = unpackSigns(allGather(mine.signs, axis, 0)).reshape([size, part]);
  const all = signs.mul(allGather(mine.magnitude, axis, 0).reshape([size, 1]));
  return cut(all.reshape([size * part]));
}

/** Signs, and the root of the mean square. Shape: [n] -> u8 [n / 8], [1], [n]. */
function compress(values: Tensor): { signs: Tensor; magnitude: Tensor; value: Tensor } {
  const signs = packSigns(values);
  const magnitude = values.square().mean().sqrt().reshape([1]);
  return { signs, magnitude, value: unpackSigns(signs).mul(magnitude) };
}
