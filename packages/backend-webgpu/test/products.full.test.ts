import { manualSeed, rand, setRank } from '@shardwise/core';
import type { Program } from '@shardwise/core/spec';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { GpuExecutable } from '../src/run/executable.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { GpuMemory } from '../src/device/gpu-memory.ts';
import { GpuSession } from '../src/device/gpu-session.ts';
import { findGpu } from '../src/find-gpu.ts';
import { webgpu } from '../src/index.ts';
import { deviceTiles, processorTiles } from '../src/kernels/product-tile.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';
import { openGpu } from './open-gpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `large products${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    const settings = { adapter: '', memoryBytes: 2 ** 30, submissionMs: 250, timeoutMs: 60_000 };

    const [plain, transposed] = [false, true].map((is) => ({ transposeA: is, transposeB: is }));
    // In the cases 128 tiles fit, so nothing beyond the end of an operand is read.
    const cases = [
      { params: plain, sizes: [133, 70, 99] },
      { params: transposed, sizes: [133, 70, 99] },
      { params: transposed, sizes: [70, 19, 5] },
      { params: plain, sizes: [33, 70, 27] },
      { params: plain, sizes: [128, 64, 128] },
      { params: transposed, sizes: [128, 64, 128] },
    ].map((each, row) => ({ ...each, row }));
    // Where a processor emulates the device, a kernel with barriers takes seconds to compile.
    const withBarriers = deviceTiles.filter(({ tile }) => tile.depth > 0);

    test.each(cases)(
      'have the same bits with every tile: $params of $sizes',
      async ({ params, sizes: [rows = 0, depth = 0, columns = 0], row: number }) => {
        const some = someForRow({ row: number, rows: cases.length }, withBarriers, 1);
        const tiles = [...processorTiles, ...some] as const;
        if (params === undefined) throw new Error('two of them');
        const gpu = await openGpu();
        const session = new GpuSession(gpu, { submissionMs: 250, timeoutMs: 60_000 });
        const memory = new GpuMemory(gpu, { memoryBytes: 2 ** 30 }, session.fail, session.destroy);
        const f32 = (...shape: number[]) => ({ shape, dtype: 'f32' }) as const;
        const inputs = [
          params.transposeA ? f32(2, depth, rows) : f32(2, rows, depth),
          params.transposeB ? f32(columns, depth) : f32(depth, columns),
        ];
        const type = f32(2, rows, columns);
        const program: Program = {
          inputs,
          instructions: [
            { op: 'matmul', params, inputs: [0, 1], ...type },
            { op: 'relu', params: {}, inputs: [2], ...type },
          ],
          outputs: [3],
          updates: [],
        };
        const numbers = inputs.map(({ shape }) =>
          Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i) * 2),
        );
        const buffers = numbers.map((values) => {
          const buffer = memory.alloc(values.byteLength);
          session.write(buffer, new Uint8Array(values.buffer));
          return buffer;
        });
        const output = memory.alloc(8 * rows * columns);
        const results: Uint8Array[] = [];
        for (const tile of tiles) {
          const plan = planKernels(program, { ...leastTraits, tiles: [tile] });
          expect(plan.kernels.map(({ label }) => label)).toEqual(['matmul relu']);
          const executable = new GpuExecutable(session, memory, plan);
          await executable.run(buffers, [output]);
          results.push(await session.read(output.memory, output.byteOffset, output.byteLength));
          executable.dispose();
        }
        session.close();
        for (const result of results) expect(result).toEqual(results[0]);
        // relu leaves positive numbers as they are, so the greatest elements are those of the product itself.
        const result = new Float32Array(results[0]?.slice().buffer ?? []);
        const greatest = result.indexOf(result.reduce((a, b) => Math.max(a, b)));
        const [row, column] = [Math.floor(greatest / columns), greatest % columns];
        const [item, inside] = [Math.floor(row / rows), row % rows];
        let sum = 0;
        for (let k = 0; k < depth; k++) {
          const at = params.transposeA ? (item * depth + k) * rows + inside : row * depth + k;
          const other = params.transposeB ? column * depth + k : k * columns + column;
          sum += (numbers[0]?.[at] ?? 0) * (numbers[1]?.[other] ?? 0);
        }
        expect(sum).toBeGreaterThan(1);
        expect(result[greatest]).toBeCloseTo(sum, 3);
      },
      300_000,
    );

    test('are computed by registers alone on a processor that computes as a device, and nothing is tried', async () => {
      const device = new WebGpuBackend(await openGpu(), { ...settings, isProcessor: true });
      setRank({ device });
      manualSeed(0);
      const y = rand([512, 512]);
      await y.realize();
      const { submissions, compiledPipelines } = device;
      await y.matmul(y).realize();
      expect(device.tiles).toBe(processorTiles);
      expect(device.compiledPipelines - compiledPipelines).toBe(1);
      expect(device.submissions - submissions).toBe(1);
      device.close();
    });

    test('are those of a processor where the adapter says that it is one', async () => {
      const adapter = await (await findGpu()).requestAdapter();
      const device = await webgpu();
      expect(device.tiles === processorTiles).toBe(adapter?.info.isFallbackAdapter);
      device.close();
    });
  },
);
