import { ConfigError, RefusedError, TensorStateError } from '@shardwise/core/spec';
import type { Members } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { asMember, type Trainer, trainerOf } from './as-member.ts';
import { VirtualNetwork } from './virtual-network.ts';

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

  it('compute what a fixed group computes, after rounds in which one of them has learned nothing', async () => {
    const settings = { every: 2, outer: { lr: 0.7, momentum: 0.9 }, values: [1, 2] } as const;
    const slopes = [
      [1, 3],
      [-2, 5],
      [4, 4],
      [0, -1],
    ] as const;
    const network = new VirtualNetwork(3, patient);
    let start = Infinity;
    const train = async (
      rank: 0 | 1,
      { update, values, outerSteps }: Trainer,
    ): Promise<unknown> => {
      while (training(network) < 2) await update(0);
      if (start === Infinity) start = outerSteps() + 2;
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
      const { update, values } = await trainerOf([1, 2], settings);
      for (const slope of slopes) await update(slope[rank === 0 ? 0 : 1]);
      return values();
    });
    expect(found).toEqual(fixed);
  });

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

describe('a mistake with members is an error that says what to do', () => {
  const refused = async (
    options: Parameters<typeof asMember>[2],
    body: (trainer: Trainer) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<unknown> => {
    const network = new VirtualNetwork(6);
    const joining = asMember(network, 'first', options, body);
    return network.run(joining).catch((error: unknown) => (error as Error).cause);
  };

  it('a message that training does not wait for', async () => {
    const error = await refused({ every: 4, fragmentSyncDelay: 1 });
    expect(String(error)).toContain('with members that come and go: a fragmentSyncDelay of 1');
  });

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
