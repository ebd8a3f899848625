import { BackendError, OutOfMemoryError } from '@shardwise/core/spec';
import type { DeviceBuffer, Program } from '@shardwise/core/spec';
import { NdArray, ProgramBuilder, evaluate, f32, interpreter } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';

const NEG = { op: 'neg', params: {} } as const;

function negation(): Program {
  const b = new ProgramBuilder();
  return b.build(b.op(NEG, [b.input([2])], [2]));
}

describe('the interpreter refuses what other backends may take on trust', () => {
  test('a composite op, which must be decomposed', async () => {
    const b = new ProgramBuilder();
    const program = b.build(b.op({ op: 'softmax', params: {} }, [b.input([2])], [2]));
    await expect(interpreter().compile(program)).rejects.toThrow(
      'to compile the composite op softmax: the interpreter defines primitive ops only ' +
        '(limits.native is empty). Decompose it first',
    );
  });

  test('an instruction that reads a later value', async () => {
    const program = {
      ...negation(),
      instructions: [{ ...NEG, inputs: [1], shape: [2], dtype: 'f32' }],
    } as const;
    await expect(interpreter().compile(program)).rejects.toThrow(BackendError);
  });

  test('an output that is listed twice', async () => {
    await expect(interpreter().compile({ ...negation(), outputs: [1, 1] })).rejects.toThrow(
      'twice',
    );
  });

  test('an update of what is not an input', async () => {
    const program = { ...negation(), updates: [{ target: 1, value: 1 }] };
    await expect(interpreter().compile(program)).rejects.toThrow('the target of an update');
  });

  test('an index out of range', async () => {
    const b = new ProgramBuilder();
    const [x, index] = [b.input([2]), b.input([1], 'i32')];
    const program = b.build(b.op({ op: 'indexSelect', params: { dim: 0 } }, [x, index], [1]));
    const three = new NdArray({ shape: [1], dtype: 'i32' }, Float64Array.of(3));
    await expect(evaluate(interpreter(), program, [f32([2], 0), three])).rejects.toThrow(
      'indexSelect by index 3: element 0 of the indices is not in [0, 2)',
    );
  });

  test('buffers that are too many, too long, misaligned, overlapping or freed', async () => {
    const backend = interpreter();
    const executable = await backend.compile(negation());
    const [x, y] = [backend.alloc(64), backend.alloc(8)];
    const first = x.subBuffer(0, 8);
    await expect(executable.run([first], [])).rejects.toThrow('a run with 0 outputs');
    await expect(executable.run([x], [y])).rejects.toThrow('f32 [2] takes 8 bytes');
    await expect(executable.run([x.subBuffer(4, 8)], [y])).rejects.toThrow(
      'limits.alignment is 16',
    );
    await expect(executable.run([first], [x.subBuffer(0, 8)])).rejects.toThrow('to write output 0');
    backend.free(x);
    await expect(executable.run([first], [y])).rejects.toThrow('has been freed');
  });

  test('a buffer of another backend', async () => {
    const backend = interpreter();
    const executable = await backend.compile(negation());
    const foreign: DeviceBuffer = { byteLength: 8, subBuffer: (): DeviceBuffer => foreign };
    await expect(executable.run([foreign], [backend.alloc(8)])).rejects.toThrow('another backend');
  });

  test('a program that has been disposed', async () => {
    const executable = await interpreter().compile(negation());
    executable.dispose();
    await expect(executable.run([], [])).rejects.toThrow('has been disposed');
  });

  test('to free twice, or a part', () => {
    const backend = interpreter();
    const buffer = backend.alloc(16);
    expect(() => backend.free(buffer.subBuffer(0, 16))).toThrow('to free a sub-buffer');
    backend.free(buffer);
    expect(() => backend.free(buffer)).toThrow('has been freed');
    expect(backend.bytesInUse()).toBe(0);
  });

  test('bytes of another length than the buffer', () => {
    const backend = interpreter();
    expect(() => backend.write(backend.alloc(4), new Uint8Array(5))).toThrow('to write 5 bytes');
  });

  test('more bytes than its capacity', () => {
    const backend = interpreter({ capacityBytes: 100 });
    backend.free(backend.alloc(80));
    const buffer = backend.alloc(80);
    expect(() => backend.alloc(21)).toThrow(OutOfMemoryError);
    expect(backend.alloc(20).byteLength + buffer.byteLength).toBe(100);
  });
});

describe('the interpreter can be asked to', () => {
  test('map its memory', async () => {
    const backend = interpreter({ mappable: true });
    const buffer = backend.alloc(4);
    backend.map(buffer)?.set([1, 2, 3, 4]);
    expect([...(await backend.read(buffer))]).toEqual([1, 2, 3, 4]);
    expect(interpreter().map(interpreter().alloc(4))).toBeUndefined();
  });

  test('compute in f64, where finite differences need it', async () => {
    const b = new ProgramBuilder();
    const program = b.build(b.op({ op: 'exp', params: {} }, [b.input([1], 'f64')], [1], 'f64'));
    const one = new NdArray({ shape: [1], dtype: 'f64' }, Float64Array.of(1));
    const { outputs } = await evaluate(interpreter(), program, [one]);
    expect([...(outputs[0]?.values ?? [])]).toEqual([Math.E]);
  });
});
