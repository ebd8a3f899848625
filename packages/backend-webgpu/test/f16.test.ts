import type { Instruction, Program } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { create } from 'webgpu';
import { type DeviceTraits, leastTraits } from '../src/kernels/device-traits.ts';
import { kernelText, slotsOf } from '../src/emit/kernel-text.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { deviceTiles, processorTiles } from '../src/kernels/product-tile.ts';

/** Devices that compute nothing but have every feature. The devices must not outlive this object. */
const nullDevices = create(['backend=null']);

/** The product of f16 operands. The sums are rounded once, as in the products that core writes inside autocast. */
function halves(rows: number, depth: number, columns: number): Program {
  const half = (...shape: number[]) => ({ shape, dtype: 'f16' }) as const;
  const cast = (input: number, dtype: 'f32' | 'f16', ...shape: number[]): Instruction => ({
    op: 'cast',
    params: { dtype },
    inputs: [input],
    shape,
    dtype,
  });
  const params = { transposeA: false, transposeB: true };
  return {
    inputs: [half(rows, depth), half(columns, depth)],
    instructions: [
      cast(0, 'f32', rows, depth),
      cast(1, 'f32', columns, depth),
      { op: 'matmul', params, inputs: [2, 3], shape: [rows, columns], dtype: 'f32' },
      cast(4, 'f16', rows, columns),
    ],
    outputs: [5],
    updates: [],
  };
}

function textsOf(program: Program, traits: DeviceTraits): { text: string; bindings: number }[] {
  const { values, kernels } = planKernels(program, traits);
  return kernels.map((kernel) => {
    const slots = slotsOf(kernel, undefined);
    const windows = slots.map((_, slot) => [slot]);
    const text = kernelText(values, kernel, { windows, windowWords: 0 }, undefined);
    return { text, bindings: slots.length };
  });
}

describe('products of f16', () => {
  const traits: DeviceTraits = { ...leastTraits, tiles: [deviceTiles[0]] };

  it('hold f16 in workgroup memory and add up in f32, where the device has the feature', () => {
    const [product] = textsOf(halves(64, 32, 64), { ...traits, computesF16: true });
    expect(product?.text).toMatch(/^enable f16;$/m);
    expect(product?.text).toContain('var<workgroup> left: array<vec4<f16>, 512>;');
    expect(product?.text).toContain('var<workgroup> right: array<vec4<f16>, 512>;');
    expect(product?.text).toContain('var sum0_0 = vec4<f32>(0);');
    // Each operand is widened before the multiplication. Otherwise each product would be rounded to f16.
    expect(product?.text).toMatch(/let \w+ = vec4<f32>\(left\[/);
    expect(product?.text).not.toContain('f32_from_f16');
  });

  it('widen f16 by integer arithmetic where the device lacks the feature', () => {
    const [product] = textsOf(halves(64, 32, 64), traits);
    expect(product?.text).not.toMatch(/\bf16\b/);
    expect(product?.text).toContain('f32_from_f16');
    expect(product?.text).toContain('var<workgroup> left: array<vec4<f32>, 512>;');
  });

  it('are kernels that a compiler of WGSL accepts, with every tile and of every size', async () => {
    const adapter = await nullDevices.requestAdapter();
    const gpu = await adapter?.requestDevice({ requiredFeatures: ['shader-f16'] });
    if (gpu === undefined) throw new Error('no device of this kind');
    const sizes = [
      [1, 3, 2],
      [5, 40, 7],
      [30, 17, 24],
      [65, 33, 130],
    ] as const;
    for (const [rows, depth, columns] of sizes) {
      for (const rated of [...deviceTiles, ...processorTiles]) {
        for (const computesF16 of [true, false]) {
          const traits: DeviceTraits = { ...leastTraits, computesF16, tiles: [rated] };
          for (const { text } of textsOf(halves(rows, depth, columns), traits)) {
            const module = gpu.createShaderModule({ code: text });
            const { messages } = await module.getCompilationInfo();
            expect(messages.map(({ message }) => message)).toEqual([]);
            await gpu.createComputePipelineAsync({
              layout: 'auto',
              compute: { module, entryPoint: 'main' },
            });
          }
        }
      }
    }
    gpu.destroy();
  });
});

describe('tiles of products', () => {
  it.each([...deviceTiles])(
    'fit into every device, in squares of 32 threads: $tile',
    ({ tile }) => {
      const threads = tile.threads[0] * tile.threads[1];
      expect(threads).toBeLessThanOrEqual(256);
      const sides = [0, 1].map((dim) => (tile.threads[dim] ?? 0) * (tile.perThread[dim] ?? 0));
      const [rows = 0, columns = 0] = sides;
      expect(4 * tile.depth * (rows + columns)).toBeLessThanOrEqual(16_384);
      if (tile.depth > 0) expect([tile.threads[0] % 4, tile.threads[1] % 8]).toEqual([0, 0]);
    },
  );
});
