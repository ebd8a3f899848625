import { singleGroup } from '@shardwise/collectives';
import { fromData, LineMesh, nn, optim, setRank, type Tensor } from '@shardwise/core';
import { diloco, type DiLoCoOptions, type Members, parallelize } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import type { VirtualNetwork } from './virtual-network.ts';

/** A model with a parameter for each value, whose gradient is what the loss multiplies it by. */
class Line extends nn.Module {
  readonly weights: nn.ParameterList;

  constructor(values: readonly number[]) {
    super();
    this.weights = new nn.ParameterList(
      values.map((value) => new nn.Parameter(Float32Array.of(value), [1])),
    );
  }

  forward(...slopes: readonly Tensor[]): Tensor {
    const products = [...this.weights].map((weight, at) => weight.mul(slopes[at] ?? 0));
    return products.reduce((sum, each) => sum.add(each)).sum();
  }
}

/** A model, which learns `slope` per update. */
export interface Trainer {
  readonly outerSteps: () => number;
  /** Makes an update by SGD with lr 1, from so many tokens if these count. */
  readonly update: (slope: number, tokens?: number) => Promise<void>;
  readonly values: () => Promise<readonly number[]>;
  readonly synchronize: () => Promise<void>;
}

/** Options of `diloco`, the values with which a member comes, and what stands between it and its strategy. */
export interface TrainerOptions extends Partial<DiLoCoOptions> {
  readonly values?: readonly number[];
  readonly observe?: (members: Members) => Members;
}

/** Makes a trainer on the rank that is set. */
export async function trainerOf(
  values: readonly number[],
  options: Partial<DiLoCoOptions>,
): Promise<Trainer> {
  const model = new Line(values);
  const strategy = diloco({ every: 1, outer: { lr: 1, momentum: 0 }, ...options });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  return {
    outerSteps: () => strategy.outer.outerSteps,
    async update(slope, tokens) {
      const slopes = values.map((_, at) => fromData(Float32Array.of((at + 1) * slope), [1], 'f32'));
      parallel.forward(...slopes).backward();
      if (tokens !== undefined) strategy.outer.countTokens(tokens);
      await optimizer.step();
      optimizer.zeroGrad();
    },
    values: async () => {
      const all: number[] = [];
      for (const weight of model.weights) all.push(...Array.from(await weight.data(), Number));
      return all;
    },
    synchronize: () => strategy.outer.synchronize(),
  };
}

/** Runs `body` with a member of its own, as if it had a thread of its own. */
export async function asMember<T>(
  network: VirtualNetwork,
  name: string,
  options: TrainerOptions,
  body: (trainer: Trainer) => Promise<T>,
): Promise<T> {
  const { values = [0, 0], observe = (members) => members, ...settings } = options;
  const [result] = await onRanks(
    1,
    async () => {
      setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) });
      const member = network.member(name);
      await member.connect();
      const trainer = await trainerOf(values, { ...settings, members: observe(member) });
      const trained = await body(trainer);
      member.close();
      return { trained };
    },
    { idleTimeoutMs: 60_000 },
  );
  if (result === undefined) throw new RangeError('one rank');
  return result.trained;
}
