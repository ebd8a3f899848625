import { readFile } from 'node:fs/promises';
import {
  decodeSafetensors,
  fromData,
  type HostArray,
  type HostArrays,
  type Tensor,
} from 'shardwise';
import { z } from 'zod';
import type { GoldenName } from './models.ts';

/** The results that PyTorch recorded for one model. */
export interface Golden {
  /** The seed of the initial weights. */
  readonly seed: number;
  readonly tensors: HostArrays;
}

export async function readGolden(name: GoldenName): Promise<Golden> {
  const file = await readFile(new URL(`${name}.safetensors`, import.meta.url));
  const { tensors, metadata } = decodeSafetensors(new Uint8Array(file));
  return { seed: z.coerce.number().int().parse(metadata['seed']), tensors };
}

/** Returns the tensors called `PREFIX.NAME`, by NAME. */
export function withPrefix(tensors: HostArrays, prefix: string): HostArrays {
  return Object.fromEntries(
    Object.entries(tensors)
      .filter(([name]) => name.startsWith(`${prefix}.`))
      .map(([name, tensor]) => [name.slice(prefix.length + 1), tensor]),
  );
}

export function floats({ bytes }: HostArray): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** Returns a rank's rows of a step's batch. Shape: data [steps, batch, ..] -> [batch / size, ..]. */
export function partOfBatch(
  data: HostArray | undefined,
  step: number,
  rank: number,
  size: number,
): Tensor {
  if (data === undefined) throw new RangeError('the golden file holds no data');
  const [steps = 0, batch = 0, ...item] = data.shape;
  const stepBytes = data.bytes.byteLength / steps;
  const partBytes = stepBytes / size;
  const start = step * stepBytes + rank * partBytes;
  const { buffer } = data.bytes.slice(start, start + partBytes);
  const values = data.dtype === 'i32' ? new Int32Array(buffer) : new Float32Array(buffer);
  return fromData(values, [batch / size, ...item], data.dtype);
}
