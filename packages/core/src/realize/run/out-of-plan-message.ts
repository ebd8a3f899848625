import { rankState } from '../../ambient.ts';
import type { Unissued } from '../../graph/collective-order.ts';
import { isOp, type Node } from '../../graph/node.ts';
import { markIssued } from '../../graph/program-order.ts';
import { issuedNow } from '../../graph/step-settings.ts';
import { Storage } from '../../graph/storage.ts';
import { unnamed } from '../../graph/collective-identity.ts';
import type { Backend } from '../../spec/backend.ts';
import type { Mesh } from '../../spec/mesh.ts';
import { count, record } from '../../timeline.ts';
import type { collect, CollectOptions, Subgraph } from '../collect/collect.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';

/** Larger values are part of the plan, because the run waits for such a message before it goes on. */
const MAX_BYTES = 64 * 1024;

type SmallCollective = Node<'allGather'> | Node<'broadcast'>;

/** The subgraph that a run computes, and the message that it sends beside the plan. */
export interface Collected {
  readonly subgraph: Subgraph;
  readonly message: OutOfPlanMessage | null;
}

/** Collects with `collector` what `roots` need, except for one such message among them. Throws what `collector` throws. */
export function collectWithMessage(
  roots: readonly Node[],
  options: CollectOptions,
  collector: typeof collect,
): Collected {
  const message = roots.map(messageOf).find((each) => each !== null);
  if (message !== undefined) {
    const { offered = [], unissued = new Map<Node, Unissued>(), issues = 0 } = options;
    const isOther = (node: Node): boolean => node !== message.root;
    const subgraph = collector(roots.filter(isOther), {
      offered: [...offered].filter(isOther),
      unissued: new Map([...unissued].filter(([node]) => !message.sends(node))),
      issues: Math.max(issues, message.root.id),
    });
    if (!message.isIn(subgraph)) {
      // The root of the message has no value in the plan.
      message.root.slot = -1;
      return { subgraph, message };
    }
  }
  return { subgraph: collector(roots, options), message: null };
}

/** Whether a collective's message is the bytes of its input as they are, so that the group can be called directly. */
function isSmallCollective(node: Node): node is SmallCollective {
  return isOp(node, 'broadcast') || (isOp(node, 'allGather') && node.params.dim === 0);
}

function messageOf(root: Node): OutOfPlanMessage | null {
  const collectives: SmallCollective[] = [];
  let node: Node | undefined = root;
  for (; node?.value === null; [node] = node.inputs) {
    if (!isSmallCollective(node) || node.params.size === 1 || node.requiresGrad) return null;
    collectives.unshift(node);
  }
  if (node?.value?.kind !== 'host' || node.resident) return null;
  const message = new OutOfPlanMessage(root, collectives, node.value.bytes);
  return message.byteLength > MAX_BYTES ? null : message;
}

/**
 * A chain of collectives on a few host values, such as the comparisons that ranks make in their first step. It is sent
 * beside the plan and is no part of the program's structure, so that a step with such a message has the same plan as a
 * step without one.
 */
export class OutOfPlanMessage {
  readonly root: Node;
  /** Each collective takes the result of the one before it. */
  readonly #collectives: readonly SmallCollective[];
  readonly #bytes: Uint8Array;

  constructor(root: Node, collectives: readonly SmallCollective[], bytes: Uint8Array) {
    this.root = root;
    this.#collectives = collectives;
    this.#bytes = bytes;
  }

  get byteLength(): number {
    return this.#collectives.reduce((bytes, each) => bytes * growthOf(each), this.#bytes.length);
  }

  /** Whether a node is a collective of the message. */
  sends(node: Node): boolean {
    return this.#collectives.some((each) => each === node);
  }

  /** Whether the rest of the run uses nodes of the message. */
  isIn({ leaves, computed }: Subgraph): boolean {
    const others = new Set([...leaves, ...computed]);
    return this.#collectives.some((each) =>
      [each, ...each.inputs].some((node) => others.has(node)),
    );
  }

  /**
   * The index of the plan's step before which the message is sent. It follows the collectives that come before it in the
   * program, because all ranks call collectives in program order, also a rank whose runs end elsewhere.
   */
  stepIn({ steps, ids }: ExecutionPlan, { computed }: Subgraph): number {
    let last = -1;
    for (const { id, slot } of computed) {
      if (id < this.root.id) last = Math.max(last, ids[slot] ?? -1);
    }
    // Collectives are numbered and started in program order.
    const isBefore = (id: number | undefined): boolean => id !== undefined && id <= last;
    return (
      1 +
      steps.findLastIndex(
        (step) => step.kind === 'start' && 'axis' in step.moved.params && isBefore(step.values[0]),
      )
    );
  }

  /** Sends the message and returns the memory of the root's value. It is a collective. */
  async send(backend: Backend, mesh: Mesh): Promise<Storage> {
    const storage = Storage.allocate(backend, this.byteLength);
    try {
      const bytes = await this.#bring(mesh);
      const mapped = backend.map(storage.buffer);
      if (mapped === undefined) backend.write(storage.buffer, bytes);
      else mapped.set(bytes);
    } catch (error) {
      storage.release();
      throw error;
    }
    for (const each of this.#collectives) if (each !== this.root) markIssued(each);
    rankState.unissued.delete(this.root);
    this.root.inputs = [];
    return storage;
  }

  async #bring(mesh: Mesh): Promise<Uint8Array> {
    let bytes = this.#bytes;
    for (const each of this.#collectives) {
      const start = performance.now();
      const { op, dtype, params } = each;
      const brought = { bytes: new Uint8Array(bytes.length * growthOf(each)), dtype };
      const group = mesh.group(params.axis);
      const identity = issuedNow(each.identity ?? unnamed, params.axis);
      if (isOp(each, 'broadcast')) {
        brought.bytes.set(bytes);
        await group.broadcast(brought, each.params.root, { identity });
      } else await group.allGather({ bytes, dtype }, brought, { identity });
      bytes = brought.bytes;
      count('collectives', 1);
      count('collectiveBytes', bytes.length);
      const { axis } = params;
      record('collective', op, start, { bytes: bytes.length, axis, ranks: group.size });
    }
    return bytes;
  }
}

/** The bytes of a collective's result, as a multiple of the bytes of its input. */
function growthOf({ op, params }: SmallCollective): number {
  return op === 'allGather' ? params.size : 1;
}
