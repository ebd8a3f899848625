import { singleGroup } from '@shardwise/collectives';
import { ConfigError, fromData, LineMesh, nn, optim, setRank } from '@shardwise/core';
import {
  type AuditOptions,
  type AuditTask,
  diloco,
  type DiLoCoOptions,
  type MemberAudits,
  type Members,
  type MemberState,
  parallelize,
  type UpdateTrace,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

interface Committed {
  readonly round: number;
  readonly seed: number;
  readonly middle: Uint8Array;
  readonly message: Uint8Array;
}

/** A member that is alone, and asks itself to make updates again. */
class Alone implements Members {
  readonly specificationVersion = 1;
  readonly committed: Committed[] = [];
  readonly answers: (UpdateTrace | null)[] = [];
  readonly computes: Uint8Array[] = [];
  readonly states: MemberState[] = [];
  readonly audits: MemberAudits;
  #made: Omit<Committed, 'message'> | null = null;

  /** `tasks` are asked for after these rounds. */
  constructor(tasks: ReadonlyMap<number, AuditTask>) {
    const open = new Map(tasks);
    this.audits = {
      seed: 7,
      computesAs: async (values) => void this.computes.push(values),
      commit: async (round, seed, middle) => void (this.#made = { round, seed, middle }),
      next: () => {
        const after = this.states.length;
        const task = open.get(after) ?? null;
        open.delete(after);
        return task;
      },
      answer: async (_, trace) => void this.answers.push(trace),
    };
  }

  enter(): Promise<null> {
    return Promise.resolve(null);
  }

  exchange(_: number, bytes: Uint8Array): ReturnType<Members['exchange']> {
    const message = bytes.slice();
    if (this.#made !== null) this.committed.push({ ...this.#made, message });
    const own = { number: 1, name: 'own', isOwn: true, bytes: message };
    return Promise.resolve({ kind: 'updates', updates: [own] });
  }

  follow(): Promise<null> {
    return Promise.resolve(null);
  }

  async took(state: MemberState): Promise<void> {
    this.states.push(state);
  }

  refuse(): void {}
}

/** Rows of 4 values that follow from the number of the sample. */
function rowsOf(indices: readonly number[]): Float32Array {
  return Float32Array.from(
    indices.flatMap((at) => [0, 1, 2, 3].map((of) => Math.sin(9 * at + of))),
  );
}

class WithDropout extends nn.Module {
  readonly hidden = new nn.Linear(4, 8);
  readonly dropout = new nn.Dropout(0.5);
  readonly last = new nn.Linear(8, 1);

  forward(x: ReturnType<typeof fromData>): ReturnType<typeof fromData> {
    return this.last.forward(this.dropout.forward(this.hidden.forward(x).relu()));
  }
}

/** What the test changes of an honest training. */
interface Changes {
  readonly options?: Partial<DiLoCoOptions>;
  /** Called in each update. */
  readonly inStep?: (optimizer: optim.Optimizer) => Promise<void> | void;
}

async function trainerOf(members: Members, { options = {}, inStep }: Changes = {}) {
  const model = new WithDropout();
  const losses: number[] = [];
  const audit: AuditOptions = {
    samples: 50,
    batchSize: 3,
    optimizer: () => new optim.AdamW(model.parameters(), { lr: 0.05 }),
    async step({ indices, optimizer }) {
      optimizer.zeroGrad();
      const loss = parallel
        .forward(fromData(rowsOf(indices), [3, 4], 'f32'))
        .square()
        .sum();
      loss.backward();
      await inStep?.(optimizer);
      await optimizer.step();
      losses.push(await loss.item());
      return losses.at(-1) ?? 0;
    },
  };
  const strategy = diloco({ every: 4, bits: 4, members, audit, ...options });
  const parallel = await parallelize(model, strategy);
  return { model, strategy, losses, audit };
}

describe('an update that is made again', () => {
  it('has the same bits, with AdamW, dropout and messages of 4 bits, after any of the latest rounds', async () => {
    const tasks: readonly (readonly [number, AuditTask])[] = [
      [1, { round: 0, member: 1, seed: 7 }],
      [4, { round: 2, member: 1, seed: 7 }],
      [5, { round: 1, member: 1, seed: 7 }],
      [6, { round: 5, member: 1, seed: 8 }],
      [7, { round: 1, member: 1, seed: 7 }],
    ];
    const members = new Alone(new Map(tasks));
    const { strategy } = await trainerOf(members);
    for (let update = 0; update < 4 * 8; update++) await strategy.outer.update();
    expect(strategy.outer.outerSteps).toBe(8);
    const of = (round: number): UpdateTrace | null => {
      const found = members.committed[round];
      return found === undefined ? null : { message: found.message, middle: found.middle };
    };
    const [first, third, second, other, forgotten] = members.answers;
    expect(first).toEqual(of(0));
    expect(third).toEqual(of(2));
    expect(second).toEqual(of(1));
    // Another seed draws other samples.
    expect(other?.message).not.toEqual(of(5)?.message);
    // The state is kept for four rounds.
    expect(forgotten).toBeNull();
  });

  it('changes nothing for the member that makes it', async () => {
    const train = async (tasks: ReadonlyMap<number, AuditTask>): Promise<unknown> => {
      const members = new Alone(tasks);
      setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) });
      const { strategy, model } = await trainerOf(members);
      for (const parameter of model.parameters()) {
        parameter.assign(
          fromData(new Float32Array(parameter.numel).fill(0.3), parameter.shape, 'f32'),
        );
      }
      for (let update = 0; update < 4 * 4; update++) await strategy.outer.update();
      return members.states.map(({ bytes }) => bytes);
    };
    const task = { round: 1, member: 2, seed: 99 };
    expect(await train(new Map([[2, task]]))).toEqual(await train(new Map()));
  });

  it('shows how a member computes by what fixed values lead to, whatever it begins with', async () => {
    const [one, other] = [new Alone(new Map()), new Alone(new Map())];
    for (const members of [one, other]) {
      const { strategy } = await trainerOf(members);
      await strategy.outer.update();
    }
    expect(one.computes).toEqual(other.computes);
    const faster = new Alone(new Map());
    const { strategy } = await trainerOf(faster, {
      inStep: (optimizer) => {
        for (const group of optimizer.paramGroups) group.lr = 0.5;
      },
    });
    await strategy.outer.update();
    expect(faster.computes).not.toEqual(one.computes);
  });
});

describe('a mistake with `audit` is an error that says what to do', () => {
  it('an update that others could not make again', async () => {
    const { strategy, audit } = await trainerOf(new Alone(new Map()));
    await strategy.outer.update();
    await expect(audit.optimizer().step()).rejects.toThrow('await strategy.outer.update()');
  });

  it('a step that depends on more than its samples', async () => {
    let calls = 0;
    const { strategy } = await trainerOf(new Alone(new Map()), {
      inStep: (optimizer) => {
        calls += 1;
        for (const group of optimizer.paramGroups) group.lr = calls;
      },
    });
    await expect(strategy.outer.update()).rejects.toThrow(
      'gives other bits when it is called again',
    );
  });

  it('two updates in one, or none', async () => {
    const { strategy } = await trainerOf(new Alone(new Map()), {
      inStep: async (optimizer) => void (await optimizer.step()),
    });
    await expect(strategy.outer.update()).rejects.toThrow('2 calls of optimizer.step()');
  });

  it.each([
    [{ fragments: 2 }, 'Use one fragment'],
    [{ every: 1 }, 'Use an `every` of 2 or more'],
    [{ fragmentUpdateAlpha: 0.5 }, 'Leave it out'],
  ])('options by which an update follows from more than the state: %o', async (options, todo) => {
    await expect(trainerOf(new Alone(new Map()), { options })).rejects.toThrow(todo);
  });

  it('members that do not make updates again, no samples, and a loop without `audit`', async () => {
    const { audits: _, ...plain } = new Alone(new Map());
    const members: Members = {
      ...plain,
      enter: () => Promise.resolve(null),
      exchange: () => Promise.reject(new RangeError('not called')),
      follow: () => Promise.resolve(null),
      took: () => Promise.resolve(),
      refuse: () => undefined,
    };
    await expect(trainerOf(members)).rejects.toThrow('what join() of shardwise/together returns');
    const audit = { samples: 0, batchSize: 1, optimizer: () => null, step: () => null };
    // @ts-expect-error -- not what is asked for
    expect(() => diloco({ every: 4, members, audit })).toThrow(ConfigError);
    const strategy = diloco({ every: 4, members });
    await parallelize(new WithDropout(), strategy);
    await expect(strategy.outer.update()).rejects.toThrow('Give diloco the option `audit`');
  });
});
