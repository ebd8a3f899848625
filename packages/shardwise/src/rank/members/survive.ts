import { randomState, setRandomState } from '@shardwise/core';
import { ConfigError, rankState, TensorStateError } from '@shardwise/core/extend';
import type { StartedRank } from '../create-rank-context.ts';
import { findHost } from '../find-host.ts';
import { checkSurvive, type InitOptions, type SurviveOptions } from '../init-options.ts';
import { findLauncher, type LauncherLink } from '../launcher-link.ts';
import { startRank } from '../start-rank.ts';
import type { MembersWay } from '../../launcher/transports/join-way.ts';
import type { MemberPlace } from '../../launcher/ranks/rank-data.ts';
import { type Agreed, agreeOnState, type Held } from './agree-on-state.ts';
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
 * threw because another rank is gone. Throws ConfigError if the number of ranks is not that of whole replicas.
 */
export async function survive(body: SurvivingBody, options: SurviveOptions = {}): Promise<void> {
  checkSurvive(options);
  if (typeof body !== 'function') throw noBody();
  const link = await findLauncher();
  if (link?.data.way.kind === 'members') {
    if (options.group !== undefined) throw ownGroupError();
    requireWholeReplicas(link.data.worldSize, options.replicaSize);
    return new SurvivingRank(link, link.data.way, body, options).run();
  }
  const host = await findHost(options.group, link);
  const { replicaSize = 1, ...init } = options;
  const { context } = await startRank(host, await host.join(), init);
  requireWholeReplicas(context.worldSize, replicaSize);
  const survivor = new Survivor({
    context,
    epoch: 0,
    agreed: { taken: undefined, ...NOTHING },
    replicaSize,
    hasChanged: undefined,
    onCommitted: () => undefined,
    onBound: () => undefined,
  });
  await body(survivor.context);
  await context.close();
}

const NOTHING: Held = { states: [], settled: -1 };

/** A rank that outlives memberships. */
class SurvivingRank {
  readonly #link: LauncherLink;
  readonly #way: MembersWay;
  readonly #members: MemberLink;
  readonly #body: SurvivingBody;
  #options: InitOptions;
  readonly #replicaSize: number;
  #held = NOTHING;
  /** The random numbers with which each run of the body begins. */
  readonly #random = randomState();

  constructor(link: LauncherLink, way: MembersWay, body: SurvivingBody, options: SurviveOptions) {
    const { replicaSize = 1, ...init } = options;
    this.#link = link;
    this.#way = way;
    this.#body = body;
    this.#options = init;
    this.#replicaSize = replicaSize;
    this.#members = new MemberLink(link, replicaSize);
  }

  /** Runs the body in one membership after another, until it returns or fails by itself. */
  async run(): Promise<void> {
    for (let epoch = -1; ;) {
      const membership = await this.#members.after(epoch);
      ({ epoch } = membership);
      const { place } = membership;
      if (place === undefined) continue;
      this.#requireSameReplicas(place);
      const { signal, stop } = this.#members.watch(epoch);
      let started: StartedRank | undefined;
      let isJoining = true;
      try {
        started = await this.#start(epoch, place, signal);
        const agreed = await this.#agree(started);
        isJoining = false;
        await this.#train(epoch, started, agreed);
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

  /** Throws ConfigError if another rank has said another size: they would look for different parts in each other. */
  #requireSameReplicas({ replicaSize }: MemberPlace): void {
    if (replicaSize === this.#replicaSize) return;
    throw new ConfigError(
      {
        asked: `survive() with replicaSize: ${this.#replicaSize}`,
        found: `another rank with ${replicaSize}`,
        todo: 'Give all ranks the same number',
      },
      { replicaSize: this.#replicaSize, other: replicaSize },
    );
  }

  async #start(epoch: number, place: MemberPlace, signal: AbortSignal): Promise<StartedRank> {
    const host = memberHost({
      link: this.#link,
      way: this.#way,
      members: this.#members,
      epoch,
      place,
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
  async #agree({ context }: StartedRank): Promise<Agreed> {
    try {
      return await agreeOnState(context.group, this.#held, this.#replicaSize);
    } catch (error) {
      if (error instanceof TensorStateError) {
        this.#members.send({ kind: 'bound', reason: 'their states differ' });
      }
      throw error;
    }
  }

  async #train(epoch: number, { context }: StartedRank, agreed: Agreed): Promise<void> {
    const members = this.#members;
    // From now on this rank, too, can give others the state, even if it is the only one that is left.
    this.#held = agreed;
    members.send({ kind: 'entered', epoch, step: agreed.taken?.step ?? 0 });
    setRandomState(this.#random);
    const survivor = new Survivor({
      context,
      epoch,
      agreed,
      replicaSize: this.#replicaSize,
      hasChanged: () => members.hasChanged(epoch),
      onCommitted: () => members.send({ kind: 'committed' }),
      onBound: (reason) => members.send({ kind: 'bound', reason }),
    });
    try {
      await this.#body(survivor.context);
    } finally {
      this.#held = survivor.held;
    }
    await context.close();
  }
}

/** Throws ConfigError if some ranks would never be in a replica. */
function requireWholeReplicas(worldSize: number, replicaSize = 1): void {
  if (worldSize % replicaSize === 0) return;
  throw new ConfigError(
    {
      asked: `survive() with replicaSize: ${replicaSize}`,
      found: `${worldSize} ranks, which are not whole replicas`,
      todo: `Start a multiple of ${replicaSize} ranks`,
    },
    { worldSize, replicaSize },
  );
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
