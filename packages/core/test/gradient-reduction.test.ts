import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { SGD } from '../src/optim/sgd.ts';
import { currentSession, setRank } from '../src/rank.ts';
import type { Backend } from '../src/spec/backend.ts';
import { BackendError } from '../src/spec/errors.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Gradient } from '../src/tensor/gradient.ts';
import { Tensor } from '../src/tensor/tensor.ts';

let device = interpreter();
/** Whether runs of programs that contain a square root fail. */
let fails = false;

/** An interpreter that fails if `fails` is set. */
function faulty(): Backend {
  const { limits } = device;
  const own = device;
  return {
    specificationVersion: 1,
    name: own.name,
    limits,
    alloc: (bytes) => own.alloc(bytes),
    free: (buffer) => own.free(buffer),
    write: (buffer, bytes) => own.write(buffer, bytes),
    read: (buffer) => own.read(buffer),
    map: (buffer) => own.map(buffer),
    sync: () => own.sync(),
    compile: async (program) => {
      const executable = await own.compile(program);
      const isBad = program.instructions.some(({ op }) => op === 'sqrt');
      return {
        dispose: () => executable.dispose(),
        run: (inputs, outputs) =>
          fails && isBad
            ? Promise.reject(new BackendError({ asked: 'to run', found: 'a fault', todo: 'Wait' }))
            : executable.run(inputs, outputs),
      };
    },
  };
}

const elements = 1000;

/**
 * A leaf whose gradients are multiplied by 10, as a strategy might do. Gradients of passes while `waits` is set are
 * not.
 */
class Reduced {
  readonly leaf = fromData(new Float32Array(elements).fill(4), [elements], 'f32')
    .makeResident()
    .requiresGrad_();
  readonly gradient: Gradient;
  readonly checked: boolean[] = [];
  waits = false;
  expected = 0;

  constructor() {
    this.gradient = this.leaf.reduceGradient({
      expect: () => this.expected++,
      arrive: () => this.#reduce(),
      checkUpdate: ({ leaves }) => this.checked.push(leaves.has(this.leaf)),
    });
  }

  #reduce(): void {
    const { node } = this.gradient.local;
    if (!this.waits && node !== null) this.gradient.addReduced(new Tensor(node).mul(10).node);
  }

  pass(factor: number, waits = false): void {
    this.waits = waits;
    this.leaf.mul(factor).sum().backward();
  }

  /** Runs a pass that fails. The gradient of each element is a quarter. */
  failingPass(waits = false): void {
    this.waits = waits;
    this.leaf.sqrt().sum().backward();
  }

  async value(): Promise<number | undefined> {
    const data = await this.leaf.grad?.data();
    return data === undefined ? undefined : Number(data[0]);
  }
}

beforeEach(() => {
  fails = false;
  device = interpreter();
  setRank({ device: faulty() });
});

describe('a gradient that a strategy reduces', () => {
  it('is reduced once, whatever is added before and after it', async () => {
    const reduced = new Reduced();
    reduced.pass(1);
    reduced.pass(2);
    expect(await reduced.value()).toBe(30);
    reduced.pass(3);
    expect(await reduced.value()).toBe(60);
    expect(reduced.expected).toBe(3);
  });

  it('waits as it is where the strategy says so, and shows with what has been reduced', async () => {
    const reduced = new Reduced();
    reduced.pass(1);
    reduced.pass(2, true);
    expect(await reduced.value()).toBe(12);
    expect(reduced.gradient.local.isEmpty).toBe(false);
    reduced.pass(3);
    expect(await reduced.value()).toBe(10 + 20 + 30);
    expect(reduced.gradient.local.isEmpty).toBe(true);
  });

  it('is seen by hooks before that, which may replace it', async () => {
    const reduced = new Reduced();
    const { leaf } = reduced;
    leaf.registerPostAccumulateGradHook(() => {
      if (leaf.grad !== null) leaf.setGradientNode(leaf.grad.neg().node);
    });
    reduced.pass(2);
    expect(await reduced.value()).toBe(-20);
    reduced.pass(1, true);
    expect(await reduced.value()).toBe(20 - 1);
  });

  it('is asked whether an update may take it, with all that are updated', async () => {
    const reduced = new Reduced();
    const other = fromData(Float32Array.of(1), [1], 'f32').requiresGrad_();
    await new SGD([reduced.leaf, other]).step();
    await new SGD([other]).step();
    expect(reduced.checked).toEqual([true]);
  });

  it('goes to the leaf at once when the strategy has left it', async () => {
    const reduced = new Reduced();
    reduced.pass(1);
    reduced.gradient.reduceBy(null);
    reduced.pass(1);
    expect(await reduced.value()).toBe(11);
  });

  it('takes the memory of one gradient, after any number of passes that were computed', async () => {
    const reduced = new Reduced();
    const kept: number[] = [];
    for (let step = 0; step < 3; step++) {
      for (const waits of [true, false]) {
        reduced.pass(1, waits);
        await currentSession().realize([]);
      }
      kept.push(device.bytesInUse());
    }
    const bytes = 4 * elements;
    expect(Math.max(...kept) - Math.min(...kept)).toBeLessThan(bytes / 10);
    reduced.leaf.zeroGrad();
    expect((kept[0] ?? 0) - device.bytesInUse()).toBeGreaterThan(0.9 * bytes);
  });
});

describe('a run that fails', () => {
  it('leaves what was reduced before, and what was waiting', async () => {
    const reduced = new Reduced();
    reduced.pass(1);
    reduced.pass(2, true);
    expect(await reduced.value()).toBe(12);
    fails = true;
    reduced.failingPass();
    await expect(reduced.value()).rejects.toThrow('a fault');
    fails = false;
    expect(await reduced.value()).toBeCloseTo(12 + 0.25, 5);
    reduced.pass(3);
    expect(await reduced.value()).toBeCloseTo(10 + 20 + 30 + 2.5, 5);
  });

  it('is forgotten with the gradients, by zeroGrad', async () => {
    const reduced = new Reduced();
    fails = true;
    reduced.failingPass();
    await expect(reduced.value()).rejects.toThrow('a fault');
    reduced.leaf.zeroGrad();
    reduced.pass(3);
    expect(await reduced.value()).toBe(30);
  });
});
