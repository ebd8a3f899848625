import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { encodeModel } from '../src/emit/onnx/model.ts';
import { ProtobufWriter } from '@shardwise/core/base';

function written(fill: (writer: ProtobufWriter) => void): number[] {
  const writer = new ProtobufWriter();
  fill(writer);
  return [...writer.finish()];
}

describe('protobuf writer', () => {
  it('writes the examples of the format description', () => {
    expect(written((writer) => writer.int(1, 150))).toEqual([0x08, 0x96, 0x01]);
    expect(written((writer) => writer.string(2, 'testing'))).toEqual([
      0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67,
    ]);
    expect(written((writer) => writer.message(3, (inner) => inner.int(1, 150)))).toEqual([
      0x1a, 0x03, 0x08, 0x96, 0x01,
    ]);
  });

  it('writes negative integers in ten bytes', () => {
    expect(written((writer) => writer.int(1, -2))).toEqual([
      0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    ]);
  });

  it('writes integers beyond 32 bits', () => {
    expect(written((writer) => writer.int(1, 2 ** 35))).toEqual([
      0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01,
    ]);
  });

  it('writes floats in little endian', () => {
    expect(written((writer) => writer.float(2, 1))).toEqual([0x15, 0, 0, 0x80, 0x3f]);
  });

  it('enlarges its buffer when more bytes are written', () => {
    const bytes = new Uint8Array(5000).fill(7);
    const result = written((writer) => writer.bytes(1, bytes));
    expect(result.length).toBe(1 + 2 + 5000);
    expect(result.slice(3).every((byte) => byte === 7)).toBe(true);
  });
});

describe('encoded model', () => {
  it('runs in ONNX Runtime with every kind of attribute, type and initializer', async () => {
    const model = encodeModel({
      nodes: [
        {
          op: 'Transpose',
          domain: '',
          inputs: ['x'],
          outputs: ['t'],
          attributes: { perm: { ints: [1, 0] } },
        },
        {
          op: 'FusedMatMul',
          domain: 'com.microsoft',
          inputs: ['t', 'w'],
          outputs: ['m'],
          attributes: { transB: { int: 1 }, alpha: { float: 0.5 } },
        },
        {
          op: 'Gelu',
          domain: '',
          inputs: ['m'],
          outputs: ['y'],
          attributes: { approximate: { string: 'none' } },
        },
      ],
      initializers: [
        {
          name: 'w',
          type: 'f32',
          shape: [1, 2],
          bytes: new Uint8Array(Float32Array.of(20, 40).buffer),
        },
      ],
      inputs: [{ name: 'x', type: 'f32', shape: [2, 3] }],
      outputs: [{ name: 'y', type: 'f32', shape: [3, 1] }],
    });
    const session = await InferenceSession.create(model);
    const x = new Tensor('float32', Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
    const { y } = await session.run({ x });
    expect(y?.dims).toEqual([3, 1]);
    // The result is [x0, x1] . [20, 40] / 2. For such large values gelu is the identity.
    expect([...new Float32Array(y?.data instanceof Float32Array ? y.data : [])]).toEqual([
      90, 120, 150,
    ]);
    await session.release();
  });
});
