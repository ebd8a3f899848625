import { BackendError } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { encodeModel } from '../src/emit/onnx/model.ts';
import { Session, Values } from '../src/engines/onnx/runtime/session.ts';
import { addressOf } from '../src/memory/host-address.ts';

const x = { name: 'x', type: 'f32', shape: [3] } as const;
const index = { name: 'index', type: 'i32', shape: [2] } as const;
const y = { name: 'y', type: 'f32', shape: [2] } as const;

/** Our own programs never fail in a session, but this model does: its index is out of range. */
const model = encodeModel({
  nodes: [{ op: 'Gather', domain: '', inputs: ['x', 'index'], outputs: ['y'], attributes: {} }],
  initializers: [],
  inputs: [x, index],
  outputs: [y],
});

describe('a session', () => {
  it.each(['on this thread', 'on another one'])('tells what fails in it %s', async (where) => {
    const session = new Session(model, { threads: 1 }, 'to compile a gather');
    const [table, indices, result] = [
      Float32Array.of(5, 6, 7),
      Int32Array.of(0, 9),
      new Float32Array(2),
    ];
    const address = ({ buffer }: { readonly buffer: ArrayBuffer }): bigint =>
      addressOf(new Uint8Array(buffer));
    const inputs = new Values(['x', 'index']);
    const outputs = new Values(['y']);
    inputs.set(0, address(table), 12, x.shape, x.type);
    inputs.set(1, address(indices), 8, index.shape, index.type);
    outputs.set(0, address(result), 8, y.shape, y.type);
    const describe = (): string => 'a gather';
    const run = async (): Promise<void> =>
      where === 'on this thread'
        ? session.run(inputs, outputs, describe)
        : session.runOverlapped(inputs, outputs, describe);
    await expect(run()).rejects.toThrow(BackendError);
    await expect(run()).rejects.toThrow(/to run a gather.*ONNX Runtime refused it/s);
    indices[1] = 2;
    await run();
    expect([...result]).toEqual([5, 7]);
    inputs.release();
    outputs.release();
    session.release();
  });
});
