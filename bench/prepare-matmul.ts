import type { Program } from '@shardwise/core/spec';
import type { Backend } from 'shardwise';
import { elementCount, type Matmul, outputShape } from './matmul-shapes.ts';

/** Returns a function that runs one matmul on its own memory, in `dtype` with sums in f32. */
export async function prepareMatmul(
  device: Backend,
  matmul: Matmul,
  dtype: 'f32' | 'bf16' = 'f32',
): Promise<{ readonly run: () => Promise<void>; readonly free: () => void }> {
  const { a, b, transposeA, transposeB } = matmul;
  const shape = outputShape(matmul);
  const product = { op: 'matmul', params: { transposeA, transposeB } } as const;
  const program: Program =
    dtype === 'f32'
      ? {
          inputs: [a, b].map((of) => ({ shape: of, dtype })),
          instructions: [{ ...product, inputs: [0, 1], shape, dtype }],
          outputs: [2],
          updates: [],
        }
      : {
          inputs: [a, b].map((of) => ({ shape: of, dtype })),
          instructions: [
            { op: 'cast', params: { dtype: 'f32' }, inputs: [0], shape: a, dtype: 'f32' },
            { op: 'cast', params: { dtype: 'f32' }, inputs: [1], shape: b, dtype: 'f32' },
            { ...product, inputs: [2, 3], shape, dtype: 'f32' },
            { op: 'cast', params: { dtype }, inputs: [4], shape, dtype },
          ],
          outputs: [5],
          updates: [],
        };
  const executable = await device.compile(program);
  const bytes = dtype === 'f32' ? 4 : 2;
  const inputs = [a, b].map((of) => {
    const buffer = device.alloc(elementCount(of) * bytes);
    const values = new Float32Array(elementCount(of)).map(
      (_, index) => ((index * 37) % 101) / 101 - 0.5,
    );
    // The upper halves of the f32 values are the values in bf16, truncated.
    const halves = new Uint16Array(values.buffer).filter((_, index) => index % 2 === 1);
    device.write(buffer, new Uint8Array(dtype === 'f32' ? values.buffer : halves.buffer));
    return buffer;
  });
  const outputs = [device.alloc(elementCount(shape) * bytes)];
  return {
    run: () => executable.run(inputs, outputs),
    free: () => {
      executable.dispose();
      for (const buffer of [...inputs, ...outputs]) device.free(buffer);
    },
  };
}
