import { describe, expect, it } from 'vitest';
import { cpu } from '../src/index.ts';
import { wasm } from '../src/wasm.ts';
import { describe as describeDevice } from '../src/cpu-backend.ts';

describe('the description of a device', () => {
  it('names the instructions that products and loops use', () => {
    const products = {
      by: 'own',
      instructions: { f32: 'AVX-512', bf16: 'AMX-BF16' },
    } as const;
    expect(describeDevice('cpu', products, { by: 'own', instructions: 'AVX-512' })).toBe(
      'cpu: products in machine code (AVX-512, bf16 by AMX-BF16); loops in machine code (AVX-512)',
    );
  });

  it('gives the reason where machine code does not compute products or loops', async () => {
    const device = await cpu({ products: 'onnxruntime', loops: 'webassembly' });
    expect(device.description).toMatch(
      /^cpu: products by ONNX Runtime, as .+; loops by WebAssembly, as .+$/,
    );
    expect((await wasm()).description).toMatch(
      /^wasm: products by WebAssembly, as .+; loops by WebAssembly, as .+$/,
    );
  });
});
