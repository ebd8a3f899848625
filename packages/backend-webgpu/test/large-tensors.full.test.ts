import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import {
  allReduce,
  concat,
  LineMesh,
  manualSeed,
  noGrad,
  rand,
  setRank,
  type Tensor,
  tensor,
} from '@shardwise/core';
import {
  type Backend,
  BackendError,
  OutOfMemoryError,
  type ProcessGroup,
} from '@shardwise/core/spec';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';
import { expectLossesOfInterpreter, onBoth } from './large-language-model.ts';
import { createSmallBindings, type DeviceOfSmallBindings } from './small-bindings.ts';

const reason = await reasonWithoutDevice(webgpu);
const bindingBytes = 16_384;

describe.skipIf(reason !== undefined)(
  `tensors that are larger than a binding${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let created: DeviceOfSmallBindings;
    let device: WebGpuBackend;
    let gpu: GPUDevice;

    beforeAll(async () => {
      created = await createSmallBindings(bindingBytes);
      ({ device, gpu } = created);
    });
    afterAll(() => device.close());

    // The slow test has a block of attention, too.
    test('a model whose embedding, logits and optimizer states are larger has the losses of the interpreter', async () => {
      await expectLossesOfInterpreter(created, bindingBytes, { hasBlock: false });
    }, 300_000);

    // Each value has 37 KB and takes three bindings.
    const [rows, columns] = [150, 61];
    const cases: readonly [name: string, compute: (x: Tensor, y: Tensor) => Tensor][] = [
      ['a chain of elementwise steps', (x, y) => x.mul(y).exp().add(x)],
      ['values of 1 byte, and of 8', (x, y) => x.lt(y).to('i64').to('f32')],
      ['values of 2 bytes', (x, y) => x.to('f16').add(y.to('bf16').to('f16')).to('f32')],
      ['what is read elsewhere than where it is written', (x, y) => x.add(y.flip([0]))],
      ['a transposed copy', (x) => x.transpose(0, 1).exp()],
      ['a concatenation', (x, y) => concat([x.mul(2), y], 0).slice(0, 140, 160)],
      ['sums along rows', (x) => x.sum(1)],
      ['sums along columns', (x) => x.sum(0)],
      ['a sum of all', (x) => x.sum()],
      ['maxima along rows', (x) => x.max(1)],
      ['softmax', (x, y) => x.mul(y).softmax(1)],
      ['a norm', (x, y) => x.layerNorm(y.select(0, 0), y.select(0, 1))],
      ['products of matrices', (x, y) => x.matmul(y.slice(0, 0, 60).transpose(0, 1))],
      ['products of transposed matrices', (x, y) => x.transpose(0, 1).matmul(y)],
      [
        'products with an epilogue',
        (x, y) =>
          x
            .matmul(y.slice(0, 0, 60).transpose(0, 1))
            .relu()
            .add(x.slice(1, 0, 60)),
      ],
      [
        'several products',
        (x, y) =>
          x
            .pad([0, 0], [0, 3])
            .reshape([6, 25, 64])
            .matmul(y.pad([0, 0], [0, 3]).slice(0, 0, 64)),
      ],
      ['rows by index', (x) => x.indexSelect(0, tensor([149, 0, 70, 70], 'i32'))],
      ['elements by index', (x) => x.gather(1, tensor([60, 1, 2], 'i32').reshape([3, 1]))],
      ['sums by index', (x, y) => x.indexAdd(0, tensor([149, 0, 149], 'i32'), y.slice(0, 0, 3))],
      ['running sums', (x) => x.cumsum(0)],
      ['an order', (x) => x.slice(1, 0, 30).argSort(0).to('f32')],
    ];

    test.each(cases)('%s', async (_, compute) => {
      created.largestBinding = 0;
      const [ours, theirs] = await onBoth(created, async () => {
        const [x, y] = [rand([rows, columns]), rand([rows, columns])];
        // The inputs are realized, so that each is a tensor of its own in memory.
        await Promise.all([x.realize(), y.realize()]);
        return noGrad(() => compute(x, y)).data();
      });
      assertAllclose([...ours].map(Number), [...theirs].map(Number), { rtol: 1e-5, atol: 1e-5 });
      expect(created.largestBinding).toBeLessThanOrEqual(bindingBytes);
    });

    test('that no kernel can have so many bindings of are refused with the operation, the shape, the bytes and the limit', async () => {
      setRank({ device });
      const [x, y] = [rand([500, 70]), rand([500, 70])];
      await Promise.all([x.exp().realize(), y.realize()]);
      const product = x.exp().transpose(0, 1).matmul(y.exp());
      const error: unknown = await product.realize().catch((cause) => cause);
      if (!(error instanceof BackendError)) throw error;
      expect(error.message).toMatch(/matmul to \[70, 70\]/);
      expect(error.message).toMatch(/\[500, 70\] has 140000 bytes/);
      expect(error.message).toMatch(/bindings of 16384 bytes/);
      expect(error.fields).toMatchObject({ kernel: 'matmul', largestBytes: 140_000, bindingBytes });
    });

    test('have no tiles of products tried that the bindings are too small for', async () => {
      const small = new WebGpuBackend(gpu, {
        adapter: 'small bindings',
        memoryBytes: 2 ** 30,
        bindingBytes: 2 ** 17,
        submissionMs: 250,
        timeoutMs: 60_000,
      });
      const f32 = (...shape: number[]) => ({ shape, dtype: 'f32' }) as const;
      const params = { transposeA: false, transposeB: false };
      // A sum has 2²⁷ terms, in rows of 32 KB.
      const executable = await small.compile({
        inputs: [f32(2 ** 14, 2 ** 13), f32(2 ** 13, 1)],
        instructions: [{ op: 'matmul', params, inputs: [0, 1], ...f32(2 ** 14, 1) }],
        outputs: [2],
        updates: [],
      });
      expect(small.tiles).toBeUndefined();
      expect(small.submissions).toBe(0);
      executable.dispose();
    });

    test('may be too many for one buffer: what a plan keeps between its programs is then in several', async () => {
      const small = new WebGpuBackend(gpu, {
        adapter: 'small buffers',
        memoryBytes: 2 ** 30,
        bufferBytes: 50_000,
        submissionMs: 250,
        timeoutMs: 60_000,
      });
      const [own] = createLoopbackTransports(1).map((transport) => createGroup(transport));
      if (own === undefined) throw new Error('a group');
      const sums = async (backend: Backend): Promise<number[]> => {
        setRank({ device: backend, mesh: new LineMesh('dp', own) });
        const x = rand([100, 100]);
        // Three values of 40 KB each are kept while the collective runs.
        const values = [x.sin(), x.cos(), x.exp()].map((value) => value.retain());
        const reduced = allReduce(x.mul(2).sum(0), 'dp');
        const results = values.map((value) => value.mul(reduced).sum());
        return Promise.all(results.map((result) => result.item()));
      };
      manualSeed(0);
      const ours = await sums(small);
      manualSeed(0);
      assertAllclose(ours, await sums(interpreter()), { rtol: 1e-4, atol: 1e-3 });
      setRank({ device });
    });

    describe('that exceed a buffer', () => {
      const largestBytes = 100_000;
      let small: WebGpuBackend;
      let peer: ProcessGroup;
      const messages: number[] = [];
      beforeAll(() => {
        small = new WebGpuBackend(gpu, {
          adapter: 'small buffers',
          memoryBytes: 2 ** 30,
          bufferBytes: largestBytes,
          submissionMs: 250,
          timeoutMs: 60_000,
        });
        // The peer calls its group itself, and so under no name.
        const [own, other] = createLoopbackTransports(2).map((transport) =>
          createGroup(transport, { verify: false }),
        );
        if (own === undefined || other === undefined) throw new Error('two groups');
        peer = other;
        const call = own.allReduce.bind(own);
        own.allReduce = (buffer, ...rest) => {
          messages.push(buffer.bytes.byteLength);
          return call(buffer, ...rest);
        };
        setRank({ device: small, mesh: new LineMesh('dp', own) });
      });
      afterAll(() => setRank({ device }));

      /** All-reduces the values as one bucket and returns the sum of their elements. */
      const inOneBucket = (values: readonly Tensor[]): Tensor =>
        values
          .map((value) => allReduce(value, 'dp', { bucket: 0 }))
          .map((value) => value.sum())
          .reduce((sum, value) => sum.add(value));
      const refused: readonly [what: string, byteLength: number, compute: () => Tensor][] = [
        [
          'a value that is computed',
          160_000,
          () => rand([100, 100]).exp().expand([4, 100, 100]).exp(),
        ],
        [
          'a value of the host',
          160_000,
          () =>
            tensor(Array.from({ length: 40_000 }, () => 1))
              .exp()
              .sum(),
        ],
        [
          'a bucket of values that would each fit',
          120_320,
          () => {
            const [x, y] = [rand([15_000]), rand([15_000])];
            return inOneBucket([x.exp(), y.exp()]);
          },
        ],
      ];

      test.each(refused)(
        '%s, is refused with what was asked for and the limit, before anything is computed or sent',
        async (_, byteLength, compute) => {
          const { submissions } = small;
          const { bytesInUse } = small.usage();
          const error: unknown = await compute()
            .data()
            .catch((cause: unknown) => cause);
          if (!(error instanceof OutOfMemoryError)) throw error;
          expect(error.message).toContain(`${byteLength} bytes`);
          expect(error.message).toContain(String(largestBytes));
          expect(error.message).toMatch(/smaller batch.*, or divide the model over more ranks/);
          expect(error.fields).toMatchObject({ byteLength, largestBytes });
          expect(small.submissions).toBe(submissions);
          expect(small.usage().bytesInUse).toBe(bytesInUse);
          expect(messages).toEqual([]);
        },
      );

      test('leave the device as it was: values that fit are computed', async () => {
        // The second value begins at the next offset where a binding may begin.
        const bucketBytes = 40_192 + 40_000;
        const values = [1, 2].map((value) => rand([10_000]).mul(0).add(value));
        const sum = inOneBucket(values).item();
        await peer.allReduce({ bytes: new Uint8Array(bucketBytes), dtype: 'f32' }, 'sum');
        expect(await sum).toBe(30_000);
        expect(messages).toEqual([bucketBytes]);
      });
    });
  },
);
