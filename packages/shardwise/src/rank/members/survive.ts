import { randomState, setRandomState } from '@shardwise/core';
import { ConfigError, rankState, TensorStateError } from '@shardwise/core/extend';
import type { StartedRank } from '../create-rank-context.ts';
import { findHost } from '../find-host.ts';
import { checkInit, type InitOptions } from '../init-options.ts';
import { findLauncher, type LauncherLink } from '../launcher-link.ts';
import { startRank } from '../start-rank.ts';
import type { MembersWay } from '../../launcher/transports/join-way.ts';
import type { Membership } from '../../launcher/ranks/rank-data.ts';
import { agreeOnState } from './agree-on-state.ts';
import type { HeldState } from './committed-state.ts';
import { memberHost, ownGroupError } from './member-host.ts';
import { isOfLostRank, MemberLink, MembershipChange } from './member-link.ts';
import { Survivor, type SurvivorContext } from './survivor.ts';

/** A training: makes the model and the optimizer, resumes their state, and updates until the end. */
type SurvivingBody = (context: SurvivorContext) => Promise<void>;

/**
 * Runs a training whose ranks go on if one is lost, as `hvd.elastic.run` does. Under `shardwise run --min-nproc`, the
 * body runs again in the same process whenever other ranks train: it makes the model, the strategy and the loader for the
 * new number of ranks, and `context.resume` gives them the state of the last commit. Otherwise it runs once, after
 * `init`. Takes the options of `init`, and closes the context at the end. Throws the error of the body, unless the body
 * threw because another rank is gone.
 */
export async function survive(body: SurvivingBody, options: InitOptions = {}): Promise<void> {
  checkInit('survive', options);
  if (typeof body !== 'function') throw noBody();
  const link = await findLauncher();
  if (link?.data.way.kind === 'members') {
    if (options.group !== undefined) throw ownGroupError();
    return new SurvivingRank(link, link.data.way, body, options).run();
  }
  const host = await findHost(options.group, link);
  const { context } = await startRank(host, await host.join(), options);
  const survivor = new Survivor({
    context,
    taken: undefined,
    hasChanged: undefined,
    onBound: () => undefined,
  });
  await body(survivor.context);
  await context.close();
}

/** A rank that outlives memberships. */
class SurvivingRank {
  readonly #link: LauncherLink;
  readonly #way: MembersWay;
  readonly #members: MemberLink;
  readonly #body: SurvivingBody;
  #options: InitOptions;
  #committed: HeldState | undefined;
  /** The random numbers with which each run of the body begins. */
  readonly #random = randomState();

  constructor(link: LauncherLink, way: MembersWay, body: SurvivingBody, options: InitOptions) {
    this.#link = link;
    this.#way = way;
    this.#body = body;
    this.#options = options;
    this.#members = new MemberLink(link, true);
  }

  /** Runs the body in one membership after another, until it returns or fails by itself. */
  async run(): Promise<void> {
    for (let epoch = -1; ;) {
      const membership = await this.#members.after(epoch);
      ({ epoch } = membership);
      const { signal, stop } = this.#members.watch(epoch);
      let started: StartedRank | undefined;
      let isJoining = true;
      try {
        started = await this.#start(membership, signal);
        const taken = await this.#agree(started);
        isJoining = false;
        await this.#train(membership, started, taken);
        return;
      } catch (error) {
        if (!(await this.#members.goesOnAfter(epoch, error, isJoining))) throw error;
        if (!isJoining && !(error instanceof MembershipChange) && !isOfLostRank(error)) {
          console.warn(
            `shardwise: a rank was lost, and here this was thrown, after which the body runs again: ${String(error)}`,
          );
        }
        await started?.leave(asError(error));
      } finally {
        stop();
      }
    }
  }

  async #start(membership: Membership, signal: AbortSignal): Promise<StartedRank> {
    const host = memberHost({
      link: this.#link,
      way: this.#way,
      members: this.#members,
      membership,
      signal,
      // A record of each membership would say nothing of a run that has gone on.
      isRecorded: false,
    });
    const joined = await host.join();
    forgetSteps();
    const started = await startRank(host, joined, this.#options);
    // Memory and compiled programs of the device serve the next membership, too.
    this.#options = { ...this.#options, device: started.context.device };
    return started;
  }

  /** Ranks of different states must not go on with one of them, so the launcher hears of it before any of them ends. */
  async #agree({ context }: StartedRank): Promise<HeldState | undefined> {
    try {
      return await agreeOnState(context.group, this.#committed);
    } catch (error) {
      if (error instanceof TensorStateError) {
        this.#members.send({ kind: 'bound', reason: 'their states differ' });
      }
      throw error;
    }
  }

  async #train(
    { epoch }: Membership,
    { context }: StartedRank,
    taken: HeldState | undefined,
  ): Promise<void> {
    const members = this.#members;
    // From now on this rank, too, can give others the state, even if it is the only one that is left.
    this.#committed = taken;
    members.send({ kind: 'entered', epoch, step: taken?.step ?? 0 });
    setRandomState(this.#random);
    const survivor = new Survivor({
      context,
      taken,
      hasChanged: () => members.hasChanged(epoch),
      onBound: (reason) => members.send({ kind: 'bound', reason }),
    });
    try {
      await this.#body(survivor.context);
    } finally {
      this.#committed = survivor.committed;
    }
    await context.close();
  }
}

/** What ranks compare of their steps begins anew, because ranks that come have made none. */
function forgetSteps(): void {
  rankState.stepSettings.clear();
  rankState.reductionsIfUsed.clear();
  rankState.hasCollectives = false;
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function noBody(): ConfigError {
  return new ConfigError({
    asked: 'survive without a body',
    found: 'no function that it could run',
    todo: 'Write survive(async (context) => { ... })',
  });
}
