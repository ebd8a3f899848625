import { RefusedError } from '@shardwise/core/spec';
import type { UpdateTrace } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { auditText } from '../../src/together/protocol/audit-text.ts';
import { AuditSchedule } from '../../src/together/coordinator/audit-schedule.ts';
import { AuditedTrainer, bytesFrom, type Cheat } from './audited-trainer.ts';
import { randomOf, VirtualNetwork } from './virtual-network.ts';

const share = 0.02;

describe('the updates that are made again', () => {
  it('are the share that was asked for', () => {
    for (const asked of [0.01, 0.02, 0.2, 0.5, 1]) {
      const schedule = new AuditSchedule(asked, randomOf(1));
      const drawn = Array.from({ length: 20_000 }, () => schedule.draw()).filter(Boolean).length;
      expect(drawn / 20_000).toBeCloseTo(asked, 2);
    }
  });

  it('leave out no member for 100 updates, of which independent draws would leave out 13 of 100', () => {
    const waits = Array.from({ length: 1000 }, (_, seed) => {
      const schedule = new AuditSchedule(share, randomOf(seed));
      let wait = 1;
      while (!schedule.draw()) wait += 1;
      return wait;
    });
    expect(Math.max(...waits)).toBeLessThanOrEqual(96);
    const mean = waits.reduce((sum, each) => sum + each, 0) / waits.length;
    expect(mean).toBeLessThan(50);
    expect((1 - share) ** 100).toBeCloseTo(0.133, 3);
  });

  it('come at any time: after one of a block, another may follow at once', () => {
    const schedule = new AuditSchedule(share, randomOf(3));
    const drawn = Array.from({ length: 96 * 500 }, () => schedule.draw());
    const perBlock = Array.from(
      { length: 500 },
      (_, block) => drawn.slice(96 * block, 96 * (block + 1)).filter(Boolean).length,
    );
    expect(Math.min(...perBlock)).toBe(1);
    expect(perBlock.filter((each) => each > 1).length).toBeGreaterThan(250);
  });
});

interface Trained {
  readonly network: VirtualNetwork;
  readonly trainers: readonly AuditedTrainer[];
  /** What ended the training of each. Null: it came to its end. */
  readonly errors: readonly (RefusedError | null)[];
}

interface TrainOptions {
  readonly seed: number;
  readonly audit?: number;
  readonly rounds: number;
  /** What each member does that is not honest. */
  readonly cheats: readonly Cheat[];
  readonly kernels?: readonly string[];
  /** The token of each member. */
  readonly tokens?: readonly string[];
  readonly disturb?: (network: VirtualNetwork) => Promise<void>;
}

/** Trains until the last honest member has come to so many rounds. */
async function train(options: TrainOptions): Promise<Trained> {
  const { seed, audit = share, rounds, cheats, kernels = [], tokens = [] } = options;
  const network = new VirtualNetwork(seed, { audit, tokens: Math.max(1, tokens.length) }, 3);
  const members = cheats.map((_, at) => network.member(`member-${at}`, tokens[at] ?? 'secret'));
  const trainers = members.map((member, at) => new AuditedTrainer(member, at, cheats[at]));
  const live = async (at: number): Promise<RefusedError | null> => {
    const [member, trainer] = [members[at], trainers[at]];
    if (member === undefined || trainer === undefined) throw new RangeError('no member');
    try {
      await member.connect();
      await trainer.enter(kernels[at]);
      while (trainer.completed < rounds) await trainer.update();
      member.close();
      return null;
    } catch (error) {
      if (error instanceof RefusedError) return error;
      throw error;
    }
  };
  const { disturb = () => Promise.resolve() } = options;
  const lives = Promise.all(cheats.map((_, at) => live(at)));
  const [errors] = await network.run(Promise.all([lives, disturb(network)]));
  return { network, trainers, errors };
}

const honest: Cheat = {};
let made = 0;
/** Sends what it has not computed. */
const lies: Cheat = {
  update: () => {
    made += 1;
    return { message: bytesFrom('made up', made), middle: bytesFrom('made up', made) };
  },
};
/** Knows the update, which all members get, and says that it is right without having made it again. */
const contradicts: Cheat = {
  answer: (_, { message }): UpdateTrace => ({ message, middle: bytesFrom('not known') }),
};
const silent: Cheat = { answer: () => null };

const refusal = { code: 'REFUSED', fields: { refusal: 'audit' } };

describe('a member', () => {
  it.each([1, 2, 3, 4, 5])(
    'whose updates are made up is shut out within 100 of them (seed %i)',
    async (seed) => {
      const cheats = [honest, honest, honest, lies];
      const { trainers, errors, network } = await train({ seed, rounds: 110, cheats });
      expect(errors[3]).toMatchObject(refusal);
      expect(trainers[3]?.counted).toBeLessThanOrEqual(100);
      expect(errors.slice(0, 3)).toEqual([null, null, null]);
      expect(network.coordinator.status.audits.disputed).toBe(1);
      expect(String(errors[3])).toContain(
        'of which two others who have made it again have other bits',
      );
    },
  );

  it('that says wrong things about the updates of others shuts out nobody but itself', async () => {
    const cheats = [honest, contradicts, honest, honest];
    const { errors, network } = await train({ seed: 1, audit: 0.3, rounds: 40, cheats });
    expect(errors).toEqual([null, expect.objectContaining(refusal), null, null]);
    expect(String(errors[1])).toContain('an audit of the update of round');
    expect(network.coordinator.status.audits.disputed).toBe(1);
  });

  it('that is asked and says nothing, or leaves, holds up nobody, and another one is asked', async () => {
    const leaves = async (network: VirtualNetwork): Promise<void> => {
      for (let cut = 0; cut < 20; cut++) {
        const isAuditing = (): boolean =>
          network.coordinator.status.members.some(({ place }) => place === 'auditing');
        while (!isAuditing()) await network.delay(20);
        const auditor = network.coordinator.status.members.find(
          ({ place, name }) => place === 'auditing' && name !== 'member-3',
        );
        if (auditor !== undefined) network.cut(auditor.name);
        await network.delay(200);
      }
    };
    const cheats = [honest, honest, honest, silent, lies];
    const { errors, trainers } = await train({
      seed: 2,
      audit: 0.2,
      rounds: 150,
      cheats,
      disturb: leaves,
    });
    expect(errors).toEqual([null, null, null, null, expect.objectContaining(refusal)]);
    expect(trainers[4]?.counted).toBeLessThanOrEqual(100);
  });

  it('that is honest is never shut out', async () => {
    const cheats = Array.from({ length: 5 }, () => honest);
    const { errors, network, trainers } = await train({ seed: 4, audit: 0.1, rounds: 300, cheats });
    expect(errors).toEqual(cheats.map(() => null));
    const { audits } = network.coordinator.status;
    expect(audits).toMatchObject({ disputed: 0 });
    expect(audits.made / audits.updates).toBeCloseTo(0.1, 1);
    // Whoever makes an update again sends none of its own in this round, so that nobody waits.
    const counted = trainers.reduce((sum, each) => sum + each.counted, 0);
    expect(counted + audits.made).toBeLessThanOrEqual(5 * 300 + 5);
    expect(auditText(audits)).toMatch(/^\d+ of \d+ updates made again, which was \d+\.\d % of all/);
  });

  it('that computes in another way than all others is not audited, and the coordinator says so', async () => {
    const cheats = [honest, honest, honest];
    const kernels = ['cpu', 'gpu', 'cpu'];
    const { errors, network } = await train({ seed: 5, audit: 0.2, rounds: 40, cheats, kernels });
    expect(errors).toEqual([null, null, null]);
    const { made: again, missed, disputed } = network.coordinator.status.audits;
    expect([again > 0, missed > 0, disputed]).toEqual([true, true, 0]);
    const said = network.notices.filter((each) => each.includes('computes in the same way'));
    expect(said.some((each) => each.includes('(member-1)'))).toBe(true);
  });

  it('of two who contradict each other stays, because nobody decides', async () => {
    const { errors, network } = await train({
      seed: 6,
      audit: 0.2,
      rounds: 30,
      cheats: [honest, lies],
    });
    expect(errors).toEqual([null, null]);
    expect(network.notices.join('\n')).toContain('nobody is left who could decide');
  });

  it('that was shut out does not come again by its token, if each has another one', async () => {
    const { errors, network } = await train({
      seed: 7,
      audit: 0.5,
      rounds: 30,
      cheats: [honest, honest, honest, lies],
      tokens: ['secret', 'secret', 'secret', 'second'],
    });
    expect(errors[3]).toMatchObject(refusal);
    const again = network.member('with another name', 'second');
    await expect(network.run(again.connect())).rejects.toMatchObject(refusal);
    const other = network.member('other', 'third');
    await network.run(other.connect());
    other.close();
  });

  it('without `audit` is refused by a coordinator that audits', async () => {
    const network = new VirtualNetwork(8, { audit: 0.02 });
    const member = network.member('plain');
    await network.run(member.connect());
    const run = { model: 'm', settings: '{}', messageBytes: [4], stateBytes: 4 };
    const entering = member.enter(run, { completed: 0, bytes: new Uint8Array(4) });
    await expect(network.run(entering)).rejects.toThrow('the option `audit` of diloco');
  });
});
