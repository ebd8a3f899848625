import { manualSeed, nn, optim } from '@shardwise/core';
import { diloco, type Members, parallelize } from '@shardwise/strategies';
import { join } from 'shardwise/together';
import { Classifier, rowsOf } from '../page/classifier.ts';

/** How a member finds the others. */
export interface MemberTask {
  readonly url: string;
  readonly token: string;
  readonly name: string;
  /** The number of members. */
  readonly members: number;
}

/** What a member has seen when all were there. */
export interface MemberResult {
  /** The hash of the state after each round, by the number of rounds that led to it. */
  readonly states: Readonly<Record<string, string>>;
}

/** The number of rounds that all members are to take part in. */
const COMMON_ROUNDS = 5;
const BATCH = 8;

/**
 * Trains on the rank that is set until all members have been there for some rounds. Members have different speeds: a round
 * lasts for a time, updates count by their samples, and each member goes on while its message is on its way.
 */
export async function trainMember(task: MemberTask): Promise<MemberResult> {
  const { url, token, name, members: count } = task;
  const member = await join({ url, token, name, onNotice: () => undefined });
  manualSeed(member.number);
  const model = new Classifier();
  const states: Record<string, string> = {};
  let common = 0;
  const members: Members = {
    specificationVersion: 1,
    enter: (run, own) => member.enter(run, own),
    exchange: (round, message) => member.exchange(round, message),
    follow: (completed) => member.follow(completed),
    refuse: (round, refused) => member.refuse(round, refused),
    async took(state) {
      if (member.groupSize === count) {
        states[state.completed] = await hashOf(state.bytes);
        common++;
      }
      await member.took(state);
    },
  };
  const strategy = diloco({
    every: { seconds: 0.05 },
    weighted: true,
    fragments: 2,
    fragmentSyncDelay: 1,
    bits: 8,
    members,
  });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
  // The others may have seen one more.
  const isOver = (): boolean => common >= COMMON_ROUNDS || (common > 0 && member.groupSize < count);
  for (let step = 1; !isOver(); step++) {
    optimizer.zeroGrad();
    const { x, labels } = rowsOf(step + 1000 * member.number, 0, BATCH);
    nn.functional.crossEntropy(parallel.forward(x), labels).backward();
    strategy.outer.countTokens(BATCH);
    await optimizer.step();
  }
  member.close();
  return { states };
}

async function hashOf(bytes: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', Uint8Array.from(bytes));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
