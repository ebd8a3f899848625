import { ConfigError, RefusedError, TensorStateError } from '@shardwise/core/spec';
import type { Members } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { asMember, type Trainer, trainerOf } from './as-member.ts';
import { PlainTrainer } from './plain-trainer.ts';
import { randomOf, VirtualNetwork } from './virtual-network.ts';

/** The thread takes longer to compute than virtual time would allow. */
const patient = { roundTimeoutMs: 1e6, stateTimeoutMs: 1e6 };

/** The number of members that take part in rounds. */
function training({ coordinator }: VirtualNetwork): number {
  return coordinator.status.members.filter(({ place }) => place === 'training').length;
}

describe('members that come and go', () => {
  it('take the mean of what they have learned, and a newcomer takes their state', async () => {
    const network = new VirtualNetwork(1);
    const arrived = Promise.withResolvers<void>();
    let last = Infinity;
    const first = asMember(network, 'first', {}, async ({ update, values, outerSteps }) => {
      await update(1);
      expect(await values()).toEqual([-1, -2]);
      arrived.resolve();
      // The other one waits for the state after a round, and then takes part in the next one.
      while (outerSteps() < last) await update(1);
      return values();
    });
    await network.run(arrived.promise);
    const second = asMember(
      network,
      'second',
      { values: [70, 80] },
      async ({ update, values, outerSteps }) => {
        // The first one only takes the state, because its gradients are those of other values.
        await update(1e6);
        const joined = outerSteps();
        last = joined + 4;
        while (outerSteps() < last) await update(3);
        return { joined, values: await values() };
      },
    );
    const [own, other] = await network.run(Promise.all([first, second]));
    expect(other.joined).toBeGreaterThan(0);
    expect(other.values).toEqual(own);
    // Rounds of the first alone learn 1, and those of both 2.
    expect(own[0]).toBe(-(other.joined + 2 * 4));
  });

  it('of another model or with other settings are refused', async () => {
    const network = new VirtualNetwork(2);
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const first = asMember(network, 'first', {}, async ({ update }) => {
      await update(1);
      begun.resolve();
      await over.promise;
    });
    await network.run(begun.promise);
    const refused = async (options: Parameters<typeof asMember>[2]): Promise<unknown> => {
      const joining = asMember(network, 'other', options, ({ update }) => update(1));
      return network.run(joining).catch((error: unknown) => (error as Error).cause);
    };
    for (const options of [{ values: [1, 2, 3] }, { bits: 4 }, { every: 3 }] as const) {
      const error = await refused(options);
      expect(error).toBeInstanceOf(RefusedError);
      expect((error as RefusedError).fields).toEqual({ refusal: 'model' });
    }
    over.resolve();
    await network.run(first);
  });

  it.each([
    { every: 2 },
    { every: 4, fragments: 2 },
    { every: 6, fragments: 2, fragmentSyncDelay: 2, fragmentUpdateAlpha: 0.25 },
    { every: 4, fragments: 2, fragmentSyncDelay: 1, bits: 32, aggregate: 'median' },
  ] as const)(
    'compute what a fixed group computes, after rounds in which one of them has learned nothing: %o',
    async (options) => {
      const settings = { outer: { lr: 0.7, momentum: 0.9 }, values: [1, 2], ...options } as const;
      const slopes = Array.from(
        { length: 13 },
        (_, at) => [1 + (at % 3), 2 + ((5 * at) % 4)] as const,
      );
      const network = new VirtualNetwork(3, patient);
      let start = Infinity;
      const train = async (
        rank: 0 | 1,
        { update, values, outerSteps }: Trainer,
      ): Promise<unknown> => {
        while (training(network) < 2) await update(0);
        // The first fragment has its turn.
        if (start === Infinity) start = 2 * Math.ceil(outerSteps() / 2) + 2;
        while (outerSteps() < start) await update(0);
        for (const slope of slopes) await update(slope[rank]);
        return values();
      };
      const found = await network.run(
        Promise.all([
          asMember(network, 'first', settings, (trainer) => train(0, trainer)),
          asMember(network, 'second', settings, (trainer) => train(1, trainer)),
        ]),
      );
      const fixed = await onRanks(2, async ({ rank }) => {
        const { update, values } = await trainerOf([1, 2], { outer: settings.outer, ...options });
        for (const slope of slopes) await update(slope[rank === 0 ? 0 : 1]);
        return values();
      });
      expect(found).toEqual(fixed);
    },
  );

  it('leave out an update that is too large or not finite, and say whose it is', async () => {
    const network = new VirtualNetwork(4, patient);
    let start = Infinity;
    const spoil =
      (factor: number) =>
      (members: Members): Members => ({
        specificationVersion: 1,
        enter: (run, own) => members.enter(run, own),
        exchange: (round, message) => {
          const values = new Float32Array(message.slice().buffer);
          const spoilt = round < start ? values : values.map((each) => each * factor);
          return members.exchange(round, new Uint8Array(spoilt.buffer));
        },
        follow: (completed) => members.follow(completed),
        took: (state) => members.took(state),
        refuse: (round, refused) => members.refuse(round, refused),
      });
    const train = async ({ update, outerSteps, values }: Trainer): Promise<unknown> => {
      while (training(network) < 5) await update(1);
      if (start === Infinity) start = outerSteps() + 2;
      while (outerSteps() < start) await update(1);
      const before = await values();
      await update(1);
      const after = await values();
      for (let round = 0; round < 3; round++) await update(1);
      return after.map((value, at) => value - (before[at] ?? 0));
    };
    const names = ['a', 'b', 'c'];
    const honest = Promise.all(names.map((name) => asMember(network, name, {}, train)));
    const attackers = [1e6, Number.NaN].map((factor) =>
      asMember(network, `factor-${factor}`, { observe: spoil(factor) }, train),
    );
    const ended = Promise.allSettled(attackers);
    for (const each of await network.run(honest)) expect(each).toEqual([-1, -2]);
    for (const each of await network.run(ended)) {
      const cause: unknown = each.status === 'rejected' ? each.reason.cause : null;
      expect(cause).toMatchObject({ code: 'REFUSED', fields: { refusal: 'excluded' } });
    }
    const notices = network.notices.filter((each) => each.startsWith('a: round'));
    expect(notices.join('\n')).toMatch(/\(factor-1000000\) is not used: a norm of 2.24e\+6/);
    expect(notices.join('\n')).toMatch(/\(factor-NaN\) is not used: values that are not finite/);
  });

  it('with another state than the others take theirs', async () => {
    const network = new VirtualNetwork(5, patient);
    const taken = (): number =>
      network.notices.filter((each) => each.startsWith('wrong: takes the state')).length;
    /** How often it had taken the state when it began to differ. */
    let before: number | null = null;
    const spoil = (members: Members): Members => ({
      specificationVersion: 1,
      enter: (run, own) => members.enter(run, own),
      exchange: (round, message) => members.exchange(round, message),
      follow: (completed) => members.follow(completed),
      took(state) {
        if (state.completed < 20 || before !== null) return members.took(state);
        before = taken();
        return members.took({ ...state, bytes: state.bytes.map((byte) => byte ^ 1) });
      },
      refuse: (round, refused) => members.refuse(round, refused),
    });
    const train = async ({ update, outerSteps, values }: Trainer): Promise<unknown> => {
      while (outerSteps() < 40) await update(1);
      return values();
    };
    const found = await network.run(
      Promise.all([
        asMember(network, 'a', {}, train),
        asMember(network, 'b', {}, train),
        asMember(network, 'wrong', { observe: spoil }, train),
      ]),
    );
    for (const values of found) expect(values).toEqual([-40, -80]);
    expect(before).not.toBeNull();
    expect(taken() - (before ?? 0)).toBe(1);
  });
});

describe('members whose messages overlap their updates', () => {
  const streaming = { every: 6, fragments: 2, fragmentSyncDelay: 2 } as const;

  it('have equal states after each round while they lose connections, leave and come', async () => {
    const network = new VirtualNetwork(7, { roundTimeoutMs: 4000, stateTimeoutMs: 2000 });
    const random = randomOf(7);
    const states = new Map<number, Set<string>>();
    const observe = (members: Members): Members => ({
      specificationVersion: 1,
      enter: (run, own) => members.enter(run, own),
      exchange: (round, message) => members.exchange(round, message),
      follow: (completed) => members.follow(completed),
      took(state) {
        const known = states.get(state.completed) ?? new Set();
        states.set(state.completed, known.add(String(state.bytes)));
        return members.took(state);
      },
      refuse: (round, refused) => members.refuse(round, refused),
    });
    const last = 30;
    const names = ['a', 'b', 'c'];
    const running = new Set([...names, 'visitors']);
    // If all who have the state left while another one is away, the run would go back to the state of this one.
    let mayLeave = false;
    const isOver = (): boolean => {
      const { members } = network.coordinator.status;
      const trains = (name: string): boolean =>
        members.some((each) => each.name === name && each.place === 'training');
      return (mayLeave ||= running.size === 0 && names.every(trains));
    };
    const train =
      (name: string) =>
      async ({ update, outerSteps }: Trainer): Promise<void> => {
        while (!isOver()) {
          await update(1 + random());
          if (outerSteps() >= last) running.delete(name);
          if (isOver() || random() > 0.1 || training(network) < names.length) continue;
          network.cut(names[Math.floor(random() * names.length)] ?? '');
        }
      };
    const leaving = async ({ update, outerSteps }: Trainer): Promise<void> => {
      const first = outerSteps();
      while (outerSteps() < Math.min(last, first + 4)) await update(1 + random());
    };
    const options = { ...streaming, bits: 8, values: [1, 2, 3], observe } as const;
    const visitor = async (): Promise<void> => {
      for (const name of ['x', 'y', 'z']) await asMember(network, name, options, leaving);
      running.delete('visitors');
    };
    await network.run(
      Promise.all([
        ...names.map((name) => asMember(network, name, options, train(name))),
        visitor(),
      ]),
    );
    expect(Math.max(...states.keys())).toBeGreaterThanOrEqual(last);
    for (const [completed, known] of states)
      expect([completed, known.size]).toEqual([completed, 1]);
    expect(
      network.notices.filter((each) => each.includes('takes the state')).length,
    ).toBeGreaterThan(3);
  });

  it('make updates while a message is on its way', async () => {
    const network = new VirtualNetwork(8, patient);
    const seen: string[] = [];
    const observe = (members: Members): Members => ({
      specificationVersion: 1,
      enter: (run, own) => members.enter(run, own),
      async exchange(round, message) {
        seen.push(`sends ${round}`);
        const result = await members.exchange(round, message);
        seen.push(`has ${round}`);
        return result;
      },
      follow: (completed) => members.follow(completed),
      took: (state) => members.took(state),
      refuse: (round, refused) => members.refuse(round, refused),
    });
    const training = asMember(network, 'a', { ...streaming, observe }, async ({ update }) => {
      for (let step = 1; step <= 6; step++) {
        await update(1);
        seen.push(`update ${step}`);
        // Its own link is slow.
        if (step === 1) network.hold('a', 1e5);
      }
    });
    await network.run(training);
    expect(seen.filter((each) => !each.startsWith('has'))).toEqual([
      'sends 0',
      'update 1',
      'update 2',
      'update 3',
      'sends 1',
      'update 4',
      'update 5',
      'update 6',
    ]);
    expect(seen.indexOf('has 0')).toBeGreaterThan(seen.indexOf('update 2'));
    expect(seen.indexOf('has 0')).toBeLessThan(seen.indexOf('update 3'));
  });
});

describe('a member that comes again between a message and its outer step, and is alone', () => {
  it('goes on with the state after this step, which newcomers get', async () => {
    const network = new VirtualNetwork(10);
    const begin = async (name: string, value: number): Promise<PlainTrainer> => {
      const member = network.member(name);
      await member.connect();
      const trainer = new PlainTrainer(member, value);
      await trainer.enter();
      return trainer;
    };
    const train = async (): Promise<readonly PlainTrainer[]> => {
      const first = await begin('first', 0);
      await first.update(1);
      let newcomer: Promise<PlainTrainer> | null = null;
      const meanwhile = async (): Promise<void> => {
        await network.delay(1000);
        network.cut('first');
        await network.delay(3000);
        newcomer = begin('newcomer', 70);
        await network.delay(3000);
      };
      await first.update(2, meanwhile());
      expect(first.completed).toBe(2);
      while (training(network) < 2) await first.update(3);
      const second = await (newcomer ?? begin('newcomer', 70));
      await Promise.all([first.update(5), second.update(5)]);
      return [first, second];
    };
    const found = await network.run(train());
    expect(network.notices.filter((each) => each.includes('(first) has come'))).toHaveLength(2);
    for (const { completed, values } of found) {
      expect(completed).toBeGreaterThan(3);
      expect(values).toEqual([-(1 + 2 + 3 * (completed - 3) + 5)]);
    }
  });
});

describe('updates that count by their tokens', () => {
  it('have their share in the mean, and that of a member with very many counts as ten times the median', async () => {
    const network = new VirtualNetwork(9, patient);
    let start = Infinity;
    const train =
      (slope: number, tokens: number) =>
      async (trainer: Trainer): Promise<unknown> => {
        const { update, outerSteps, values } = trainer;
        while (training(network) < 4) await update(0, 100);
        if (start === Infinity) start = outerSteps() + 2;
        while (outerSteps() < start) await update(0, 100);
        await update(slope, tokens);
        return values();
      };
    const settings = { weighted: true } as const;
    const found = await network.run(
      Promise.all([
        asMember(network, 'slow', settings, train(4, 100)),
        asMember(network, 'fast', settings, train(8, 300)),
        asMember(network, 'faster', settings, train(16, 400)),
        asMember(network, 'lies', settings, train(2, 3001)),
      ]),
    );
    const mean = (4 * 100 + 8 * 300 + 16 * 400 + 2 * 3000) / 3800;
    for (const values of found) expect(values).toEqual([-mean, -2 * mean]);
    expect(network.notices.filter((each) => each.includes('is not used'))).toEqual([]);
  });
});

describe('a mistake with members is an error that says what to do', () => {
  const refused = async (
    options: Parameters<typeof asMember>[2],
    body: (trainer: Trainer) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<unknown> => {
    const network = new VirtualNetwork(6);
    const joining = asMember(network, 'first', options, body);
    return network.run(joining).catch((error: unknown) => (error as Error).cause);
  };

  it('synchronize(), which the others do not call at the same time', async () => {
    const error = await refused({}, ({ synchronize }) => synchronize());
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain('strategy.outer.outerSteps has grown');
  });

  it('parameters that are not finite, which the others would refuse', async () => {
    const error = await refused({}, ({ update }) => update(Number.NaN));
    expect(error).toBeInstanceOf(TensorStateError);
  });
});
