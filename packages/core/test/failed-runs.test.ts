import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { LineMesh } from '../src/mesh.ts';
import { Adam } from '../src/optim/adam.ts';
import { currentSession, setRank } from '../src/rank.ts';
import type { Backend, Program } from '../src/spec/backend.ts';
import { BackendError, TensorStateError } from '../src/spec/errors.ts';
import { allReduce } from '../src/tensor/collectives.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import type { ProcessGroup } from '../src/spec/process-group.ts';
import { groupBesideZeros } from './group-beside-zeros.ts';

/** The number of the run of a program that fails, counted from 0. -1 means that none fails. */
let failing = -1;
let runs = 0;
/** The instruction that the error names, if the device can tell which one failed. */
let blamed: string | undefined;
let failsToCompile: (program: Program) => boolean = () => false;

function fault({ instructions }: Program): BackendError {
  const instruction = instructions.findIndex(({ op }) => op === blamed);
  const fields = instruction < 0 ? {} : { instruction };
  return new BackendError({ asked: 'to run', found: 'a fault', todo: 'Try again' }, fields);
}

/** An interpreter that fails in the run number `failing`. */
function faultyDevice(): Backend {
  const device = interpreter();
  return {
    ...device,
    compile: async (program) => {
      if (failsToCompile(program)) throw fault(program);
      const executable = await device.compile(program);
      return {
        dispose: () => executable.dispose(),
        run: (inputs, outputs) =>
          runs++ === failing ? Promise.reject(fault(program)) : executable.run(inputs, outputs),
      };
    },
  };
}

beforeEach(() => {
  failing = -1;
  runs = 0;
  blamed = undefined;
  failsToCompile = () => false;
  setRank({ device: faultyDevice(), mesh: new LineMesh('dp', groupBesideZeros) });
});

function vector(...values: number[]): Tensor {
  return fromData(Float32Array.from(values), [values.length], 'f32').makeResident();
}

/** Trains two layers whose gradients are reduced one after the other. */
class Training {
  readonly weights = [vector(1, 2).requiresGrad_(), vector(3, 4).requiresGrad_()] as const;
  readonly optimizer = new Adam(this.weights, { lr: 0.1 });

  async step(): Promise<boolean> {
    const [first, second] = this.weights;
    this.optimizer.zeroGrad();
    const hidden = first.mul(fromData(Float32Array.of(2, 3), [2], 'f32')).tanh();
    hidden.mul(second).sum().backward();
    for (const weight of [second, first]) {
      const { grad } = weight;
      if (grad !== null) weight.setGradientNode(allReduce(grad, 'dp').node);
    }
    return this.optimizer.step();
  }

  /** Returns the state that a checkpoint would contain. */
  async state(): Promise<unknown> {
    const weights = await Promise.all(this.weights.map((weight) => weight.data()));
    return [weights, await this.optimizer.stateDict()];
  }
}

async function runsOfStep(): Promise<number> {
  await new Training().step();
  return runs;
}

describe('a step of several segments, each of which fails in turn', () => {
  it('leaves everything as it was, or the rank refuses further work; never something between', async () => {
    const expected: unknown[] = [];
    const undisturbed = new Training();
    for (let step = 0; step < 3; step++) {
      expected.push(await undisturbed.state());
      await undisturbed.step();
    }
    const outcomes: string[] = [];
    runs = 0;
    const segments = await runsOfStep();
    expect(segments).toBeGreaterThan(2);
    for (let segment = 0; segment < segments; segment++) {
      setRank({ device: faultyDevice(), mesh: new LineMesh('dp', groupBesideZeros) });
      const training = new Training();
      await training.step();
      [runs, failing] = [0, segment];
      await expect(training.step()).rejects.toThrow(/a fault/);
      failing = -1;
      let state: unknown;
      try {
        state = await training.state();
      } catch (error) {
        expect(error).toBeInstanceOf(TensorStateError);
        expect(String(error)).toMatch(/updated some tensors in place and others not .*checkpoint/s);
        await expect(training.step()).rejects.toBe(error);
        outcomes.push('refused');
        continue;
      }
      expect(state).toEqual(expected[1]);
      await training.step();
      expect(await training.state()).toEqual(expected[2]);
      outcomes.push('as before');
    }
    expect(new Set(outcomes)).toEqual(new Set(['as before', 'refused']));
    expect(outcomes.lastIndexOf('as before')).toBeLessThan(outcomes.indexOf('refused'));
  });
});

describe('after a failure', () => {
  it('what did not fail is computed by the next run, and what failed tells its error again', async () => {
    const x = tensor([1, 2]).requiresGrad_();
    x.mul(3).sum().backward();
    const freed = await tensor(Array.from({ length: 300 }, () => 1))
      .mul(1)
      .realize();
    const bad = freed.mul(2);
    freed.dispose();
    await expect(bad.data()).rejects.toThrow(/freed by dispose/);
    await expect(bad.data()).rejects.toThrow(/freed by dispose/);
    expect(await tensor([1]).add(1).item()).toBe(2);
    expect([...((await x.grad?.data()) ?? [])]).toEqual([3, 3]);
  });

  it('a value that was computed before the failure is not computed again: ranks communicate once', async () => {
    let reductions = 0;
    const group: ProcessGroup = {
      ...groupBesideZeros,
      allReduce: async () => {
        reductions++;
      },
    };
    setRank({ device: faultyDevice(), mesh: new LineMesh('dp', group) });
    const total = allReduce(vector(...Array.from({ length: 300 }, () => 1)).mul(2), 'dp').retain();
    failing = 1;
    await expect(total.add(1).mul(2).data()).rejects.toThrow(/a fault/);
    failing = -1;
    expect((await total.data())[0]).toBe(2);
    expect(reductions).toBe(1);
  });

  it('of a program that does not compile, only what needs it is gone', async () => {
    const [x, y] = [vector(1, 2).requiresGrad_(), vector(1, 2)];
    allReduce(x.mul(3), 'dp').sum().backward();
    failsToCompile = ({ instructions }) => instructions.some(({ op }) => op === 'erf');
    const after = allReduce(y.exp(), 'dp').erf();
    await expect(after.data()).rejects.toThrow(/a fault/);
    failsToCompile = () => false;
    expect([...((await x.grad?.data()) ?? [])]).toEqual([3, 3]);
    expect([...(await y.erf().data())]).toHaveLength(2);
  });

  it('of one instruction, what the program has beside it is computed by the next run', async () => {
    const [x, count] = [vector(1, 2).requiresGrad_(), vector(0)];
    count.assign(count.add(1));
    x.mul(3).sum().backward();
    [failing, blamed] = [0, 'erf'];
    await expect(
      vector(...Array.from({ length: 300 }, () => 1))
        .erf()
        .data(),
    ).rejects.toThrow(/a fault/);
    expect([...((await x.grad?.data()) ?? [])]).toEqual([3, 3]);
    expect([...(await count.data())]).toEqual([1]);
  });

  it('a gradient is what it was before the pass that failed', async () => {
    const x = vector(1, 2).requiresGrad_();
    x.mul(3).sum().backward();
    await currentSession().realize([]);
    failsToCompile = ({ instructions }) => instructions.some(({ op }) => op === 'sin');
    x.cos().sum().backward();
    await expect(currentSession().realize([])).rejects.toThrow(/a fault/);
    expect([...((await x.grad?.data()) ?? [])]).toEqual([3, 3]);
  });

  it('a rank that begins in the same thread has nothing of the one before', async () => {
    const x = vector(1).requiresGrad_();
    failsToCompile = () => true;
    x.mul(3).sum().backward();
    setRank({ device: interpreter() });
    expect(await tensor([1]).add(1).item()).toBe(2);
  });

  it('of a read in a run with an update that was not awaited, the error says which call failed, and why the rank must end', async () => {
    const x = vector(1, 2);
    x.assign(x.mul(2));
    const read = allReduce(x, 'dp').erf();
    // The first run is that of the update.
    [runs, failing] = [0, 1];
    const refused = read.data();
    await expect(refused).rejects.toThrow(TensorStateError);
    await expect(refused).rejects.toThrow(
      /erf at .*failed-runs\.test\.ts:\d+:\d+ failed in a run that also made updates which were pending.*a fault.*await tensor\.realize\(\)/,
    );
  });

  it('of an update, the contents are those from before it, and a later one is made', async () => {
    const x = vector(1, 2);
    failsToCompile = ({ instructions }) => instructions.some(({ op }) => op === 'erf');
    x.assign(x.erf());
    await expect(x.data()).rejects.toThrow(/a fault/);
    expect([...(await x.data())]).toEqual([1, 2]);
    x.assign(x.mul(2));
    expect([...(await x.data())]).toEqual([2, 4]);
  });
});
