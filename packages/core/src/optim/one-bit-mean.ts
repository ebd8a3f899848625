import type { AxisParams } from '../spec/op.ts';
import { allGather, allToAll } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { fromData } from '../tensor/create.ts';

/** What compression has left out so far. It is added to the next values that are sent. */
export interface CompressionErrors {
  /** The error of what this rank sends. Shape: that of the value. */
  readonly worker: Tensor;
  /** The error of the part that this rank averages. Shape: [oneBitPartElements]. */
  readonly server: Tensor;
}

/** The number of elements that each rank averages. It is a multiple of 8, so that their signs are whole bytes. */
export function oneBitPartElements(elements: number, ranks: number): number {
  return Math.ceil(elements / (8 * ranks)) * 8;
}

/**
 * Computes the mean of a value over ranks. Messages consist of signs and one magnitude in both rounds: to the rank that
 * averages a part, and back. Error feedback makes up for what they leave out. The bytes are 1/32 of those of an
 * all-reduce in f32 (Tang et al. 2021, "1-bit Adam", algorithm 1). Updates the errors. All ranks get the same bits.
 * Shape: value N -> N.
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
  // The error of the padding is dropped, so that a checkpoint need not keep it.
  const elements = Math.min(part, Math.max(0, numel - rank * part));
  const error = average.sub(mine.value).slice(0, 0, elements);
  server.assign(elements === part ? error : error.pad([0], [part - elements]));
  const signs = unpackSigns(allGather(mine.signs, axis, 0)).reshape([size, part]);
  const all = signs.mul(allGather(mine.magnitude, axis, 0).reshape([size, 1]));
  return cut(all.reshape([size * part]));
}

/**
 * Compresses values to their signs and the root of their mean square. `value` is what the receivers will compute from
 * them. Shape: [n] -> u8 [n / 8], [1], [n].
 */
function compress(values: Tensor): { signs: Tensor; magnitude: Tensor; value: Tensor } {
  const signs = packSigns(values);
  const magnitude = values.square().mean().sqrt().reshape([1]);
  return { signs, magnitude, value: unpackSigns(signs).mul(magnitude) };
}

/** The values of the bits of a byte. The first element has the highest bit. */
const places = [128, 64, 32, 16, 8, 4, 2, 1];

/** Packs signs into one bit per element: 1 for a number from 0 on, and else 0. Shape: f32 [8 n] -> u8 [n]. */
export function packSigns(values: Tensor): Tensor {
  const bits = values
    .ge(0)
    .to('f32')
    .reshape([values.numel / 8, 8]);
  return bits.mul(fromPlaces()).sum(1).to('u8');
}

/** Unpacks signs: a bit that is set becomes 1, and any other -1. Shape: u8 [n] -> f32 [8 n]. */
export function unpackSigns(packed: Tensor): Tensor {
  const bytes = packed.to('f32').reshape([packed.numel, 1]).expand([packed.numel, 8]);
  const shifted = bytes.div(fromPlaces()).floor();
  const bits = shifted.sub(shifted.mul(0.5).floor().mul(2));
  return bits
    .mul(2)
    .sub(1)
    .reshape([packed.numel * 8]);
}

function fromPlaces(): Tensor {
  return fromData(Float32Array.from(places), [8], 'f32');
}
