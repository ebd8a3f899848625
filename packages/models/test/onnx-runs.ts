import { fromData, type Tensor } from '@shardwise/core';
import { InferenceSession, Tensor as OrtTensor } from 'onnxruntime-node';
import { expect } from 'vitest';

/** Runs a file in the onnxruntime-node that everyone installs. Inputs of i32 become the i64 that files take. */
export async function runFile(
  file: Uint8Array | string,
  inputs: Readonly<Record<string, Tensor>>,
): Promise<Readonly<Record<string, OrtTensor>>> {
  const session =
    typeof file === 'string'
      ? await InferenceSession.create(file)
      : await InferenceSession.create(file);
  return runSession(session, inputs);
}

/** Runs a session of either package, and releases it. */
export async function runSession(
  session: InferenceSession,
  inputs: Readonly<Record<string, Tensor>>,
): Promise<Readonly<Record<string, OrtTensor>>> {
  const feeds: Record<string, OrtTensor> = {};
  for (const [name, tensor] of Object.entries(inputs)) {
    const values = await tensor.data();
    feeds[name] =
      tensor.dtype === 'i32'
        ? new OrtTensor('int64', BigInt64Array.from(values, BigInt), tensor.shape)
        : new OrtTensor('float32', Float32Array.from(values, Number), tensor.shape);
  }
  try {
    return await session.run(feeds);
  } finally {
    await session.release();
  }
}

/** Requires the values of a file to be ours, to 1e-5. */
export async function expectSame(found: OrtTensor | undefined, own: Tensor): Promise<void> {
  expect(found?.dims).toEqual([...own.shape]);
  const expected = await own.data();
  const values = found?.data ?? [];
  expect(values.length).toBe(expected.length);
  let worst = 0;
  for (const [index, value] of Array.from(expected, Number).entries()) {
    const error = Math.abs(Number(values[index]) - value) / Math.max(1, Math.abs(value));
    worst = Math.max(worst, Number.isNaN(error) ? Infinity : error);
  }
  expect(worst).toBeLessThan(1e-5);
}

/** Numbers between -1 and 1 that depend on the place. */
export function waves(shape: readonly number[], seed = 1): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin((i + 1) * 12.9898 * seed));
  return fromData(values, [...shape], 'f32');
}
