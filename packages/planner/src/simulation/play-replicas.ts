import type { Action, ComputeAction, OverlapAction, TransferAction } from '@shardwise/strategies';
import { EventQueue } from './event-queue.ts';
import { type FlowEnd, Network } from './network.ts';
import { rankAt, type SimulatedRun, type SimulatedSpan, type StageTimes } from './simulated-run.ts';

/** When each place of a replica has computed the last of its gradients, and what it did until then. */
export interface PlayedReplica {
  readonly replica: number;
  readonly endSeconds: readonly number[];
  readonly busySeconds: readonly number[];
  readonly spans: readonly (readonly SimulatedSpan[])[];
}

interface Message {
  readonly key: string;
  readonly latencySeconds: number;
}

type Event =
  | { readonly kind: 'go'; readonly actor: Actor }
  | { readonly kind: 'flow'; readonly end: FlowEnd<Message> }
  | { readonly kind: 'arrived'; readonly key: string };

/** What takes time on a rank. */
type Computation = ComputeAction | OverlapAction;

/** A place of a replica: the ranks that share its layers, which do everything together. */
interface Actor {
  readonly replica: number;
  readonly place: number;
  readonly actions: readonly Action[];
  readonly slowdown: number;
  readonly spans: SimulatedSpan[];
  next: number;
  now: number;
  busy: number;
}

/**
 * Plays the schedule of some replicas at once, whose messages may share links. `keepsSpans` says of which replicas the
 * timeline is kept.
 */
export function playReplicas(
  run: SimulatedRun,
  replicas: readonly number[],
  keepsSpans: (replica: number) => boolean,
): readonly PlayedReplica[] {
  return new Player(run, replicas, keepsSpans).play();
}

class Player {
  readonly #run: SimulatedRun;
  readonly #keepsSpans: (replica: number) => boolean;
  readonly #replicas: readonly number[];
  readonly #actors: readonly Actor[];
  readonly #events = new EventQueue<Event>();
  readonly #network: Network<Message>;
  readonly #linkNumbers: ReadonlyMap<string, number>;
  /** The times at which messages arrived. */
  readonly #arrived = new Map<string, number>();
  readonly #waiting = new Map<string, Actor>();

  constructor(
    run: SimulatedRun,
    replicas: readonly number[],
    keepsSpans: (replica: number) => boolean,
  ) {
    this.#run = run;
    this.#replicas = replicas;
    this.#keepsSpans = keepsSpans;
    this.#actors = replicas.flatMap((replica) =>
      run.schedule.actions.map((actions, place): Actor => ({
        replica,
        place,
        actions,
        slowdown: slowdownOf(run, place, replica),
        spans: [],
        next: 0,
        now: 0,
        busy: 0,
      })),
    );
    const { numbers, bandwidths } = linksOf(run, replicas);
    this.#linkNumbers = numbers;
    this.#network = new Network(bandwidths);
  }

  play(): readonly PlayedReplica[] {
    for (const actor of this.#actors) this.#events.add(0, { kind: 'go', actor });
    for (let event = this.#events.take(); event !== undefined; event = this.#events.take()) {
      this.#handle(event.time, event.value);
    }
    return this.#replicas.map((replica, index) => {
      const places = this.#run.schedule.ranks;
      const own = this.#actors.slice(index * places, (index + 1) * places);
      return {
        replica,
        endSeconds: own.map(({ now }) => now),
        busySeconds: own.map(({ busy }) => busy),
        spans: own.map(({ spans }) => spans),
      };
    });
  }

  #handle(time: number, event: Event): void {
    switch (event.kind) {
      case 'go':
        return this.#advance(event.actor);
      case 'flow':
        return this.#flowEnds(time, event.end);
      case 'arrived': {
        this.#arrived.set(event.key, time);
        const actor = this.#waiting.get(event.key);
        if (actor === undefined) return;
        this.#waiting.delete(event.key);
        return this.#advance(actor);
      }
      default:
        return event satisfies never;
    }
  }

  /** Carries out the actions of an actor until one takes time, or waits for a message. */
  #advance(actor: Actor): void {
    for (;;) {
      const action = actor.actions[actor.next];
      if (action === undefined) return;
      switch (action.kind) {
        case 'sendActivation':
        case 'sendGradient':
          this.#send(actor, action);
          break;
        case 'receiveActivation':
        case 'receiveGradient':
        // A receive does not wait: the computation that needs the message does.
        case 'unshard':
        case 'reshard':
        case 'reduceGradient':
          // Reductions follow when all replicas have come to the end (`simulate-run.ts`).
          break;
        default: {
          if (!this.#takeInputs(actor, action)) return;
          const seconds = this.#secondsOf(actor, action);
          actor.busy += seconds;
          this.#span(actor, nameOf(action), 'compute', actor.now + seconds);
          actor.next++;
          this.#events.add(actor.now, { kind: 'go', actor });
          return;
        }
      }
      actor.next++;
    }
  }

  /** Waits for the messages that a computation needs. False: one is not there, and its arrival continues the actor. */
  #takeInputs(actor: Actor, action: Computation): boolean {
    for (const key of this.#inputsOf(actor, action)) {
      const arrived = this.#arrived.get(key);
      if (arrived === undefined) {
        this.#waiting.set(key, actor);
        return false;
      }
      this.#span(actor, 'wait for a message', 'communication', Math.max(actor.now, arrived));
    }
    return true;
  }

  #inputsOf({ place, replica }: Actor, action: Computation): readonly string[] {
    const { edges, rankOfStage } = this.#run.schedule;
    const parts = action.kind === 'overlap' ? action.actions : [action];
    return parts.flatMap(({ kind, stage, microbatch }) => {
      if (kind === 'weightGradient') return [];
      const isForward = kind === 'forward';
      return edges.flatMap(({ from, to, gradient }) => {
        const isInput = isForward ? to === stage : from === stage && gradient;
        const peer = isForward ? from : to;
        if (!isInput || rankOfStage[peer] === place) return [];
        const message = isForward ? 'receiveActivation' : 'receiveGradient';
        return [keyOf(replica, { kind: message, stage, peer, microbatch })];
      });
    });
  }

  #span(actor: Actor, name: string, category: SimulatedSpan['category'], endSeconds: number): void {
    if (endSeconds > actor.now && this.#keepsSpans(actor.replica)) {
      actor.spans.push({ name, category, startSeconds: actor.now, endSeconds });
    }
    actor.now = endSeconds;
  }

  #secondsOf(actor: Actor, action: Computation): number {
    const parts = action.kind === 'overlap' ? action.actions : [action];
    const seconds = parts.map(({ kind, stage }) => {
      const times = this.#run.places[actor.place]?.stages.get(stage);
      return times === undefined ? 0 : secondsOfKind(kind, times);
    });
    return actor.slowdown * seconds.reduce((sum, each) => sum + each, 0);
  }

  #send(actor: Actor, action: TransferAction): void {
    const { schedule, messageBytes, ranksOfPlace, topology } = this.#run;
    const to = schedule.rankOfStage[action.peer] ?? 0;
    const key = keyOf(actor.replica, otherEnd(action));
    const [from, target] = [
      rankAt(this.#run, actor.place, actor.replica, 0),
      rankAt(this.#run, to, actor.replica, 0),
    ];
    const isInside =
      Math.floor(from / topology.devicesPerHost) === Math.floor(target / topology.devicesPerHost);
    const latencySeconds = isInside ? topology.insideLatencySeconds : topology.cardLatencySeconds;
    const links = pathOf(this.#run, actor.place, to, actor.replica).flatMap((name) => {
      const number = this.#linkNumbers.get(name);
      return number === undefined ? [] : [number];
    });
    // With a card for each device, the parts of the message go beside each other. One card has all of them.
    const isShared = !isInside && topology.cards === 'one for each host';
    const bytes = isShared ? messageBytes : messageBytes / ranksOfPlace;
    if (bytes === 0 || links.length === 0) {
      this.#events.add(actor.now + latencySeconds, { kind: 'arrived', key });
      return;
    }
    this.#foresee(this.#network.begin(actor.now, bytes, links, { key, latencySeconds }));
  }

  #flowEnds(time: number, { flow, version }: FlowEnd<Message>): void {
    if (flow.version !== version) return;
    flow.version++;
    this.#foresee(this.#network.end(time, flow));
    this.#events.add(time + flow.tag.latencySeconds, { kind: 'arrived', key: flow.tag.key });
  }

  #foresee(ends: readonly FlowEnd<Message>[]): void {
    for (const end of ends) this.#events.add(end.time, { kind: 'flow', end });
  }
}

function secondsOfKind(kind: ComputeAction['kind'], times: StageTimes): number {
  switch (kind) {
    case 'forward':
      return times.forward;
    case 'inputGradient':
      return times.inputGradient;
    case 'weightGradient':
      return times.weightGradient;
    case 'backward':
      return times.inputGradient + times.weightGradient;
    default:
      return kind satisfies never;
  }
}

/** The ranks of a place wait for the slowest of them. */
export function slowdownOf(run: SimulatedRun, place: number, replica: number): number {
  const { stragglers = {}, ranksOfPlace } = run;
  let slowest = 1;
  for (let member = 0; member < ranksOfPlace; member++) {
    slowest = Math.max(slowest, stragglers[rankAt(run, place, replica, member)] ?? 1);
  }
  return slowest;
}

/** The names of the links that a message of the first rank of a place goes over. */
function pathOf(run: SimulatedRun, from: number, to: number, replica: number): readonly string[] {
  const { devicesPerHost, cards, spine } = run.topology;
  const [a, b] = [rankAt(run, from, replica, 0), rankAt(run, to, replica, 0)];
  const [hostA, hostB] = [Math.floor(a / devicesPerHost), Math.floor(b / devicesPerHost)];
  if (hostA === hostB) return [`inside ${a} out`, `inside ${b} in`];
  const [cardA, cardB] =
    cards === 'one for each device' ? [`${a}`, `${b}`] : [`host ${hostA}`, `host ${hostB}`];
  const ends = [`card ${cardA} out`, `card ${cardB} in`];
  if (spine === undefined) return ends;
  const [up, down] = [hostA, hostB].map((host) => Math.floor(host / spine.hostsPerSwitch));
  return up === down ? ends : [...ends, `switch ${up} up`, `switch ${down} down`];
}

function linksOf(
  run: SimulatedRun,
  replicas: readonly number[],
): { readonly numbers: ReadonlyMap<string, number>; readonly bandwidths: readonly number[] } {
  const numbers = new Map<string, number>();
  const bandwidths: number[] = [];
  for (const replica of replicas) {
    for (const name of linkNames(run, replica)) {
      if (numbers.has(name)) continue;
      numbers.set(name, bandwidths.length);
      bandwidths.push(bandwidthOf(run, name));
    }
  }
  return { numbers, bandwidths };
}

/** The names of all links that the messages of a replica go over. */
export function linkNames(run: SimulatedRun, replica: number): readonly string[] {
  const { edges, rankOfStage } = run.schedule;
  return edges.flatMap(({ from, to }) => {
    const [a, b] = [rankOfStage[from] ?? 0, rankOfStage[to] ?? 0];
    return a === b ? [] : [...pathOf(run, a, b, replica), ...pathOf(run, b, a, replica)];
  });
}

function bandwidthOf({ topology }: SimulatedRun, name: string): number {
  if (name.startsWith('inside')) return topology.insideBytesPerSecond;
  if (name.startsWith('card')) return topology.cardBytesPerSecond;
  return topology.spine?.bytesPerSecond ?? Infinity;
}

function keyOf(replica: number, { kind, stage, peer, microbatch }: TransferAction): string {
  return `${replica} ${kind} ${stage} ${peer} ${microbatch}`;
}

/** The same message as its receiver names it. */
function otherEnd({ kind, stage, peer, microbatch }: TransferAction): TransferAction {
  const received = kind === 'sendActivation' ? 'receiveActivation' : 'receiveGradient';
  return { kind: received, stage: peer, peer: stage, microbatch };
}

function nameOf(action: Computation): string {
  const parts = action.kind === 'overlap' ? action.actions : [action];
  return parts
    .map(({ kind, stage, microbatch }) => `${kind} ${stage} of ${microbatch}`)
    .join(' + ');
}
