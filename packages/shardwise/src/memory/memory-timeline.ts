import { allGatherObject } from '@shardwise/collectives';
import type { ProfiledModel } from '@shardwise/core';
import {
  checkOptions,
  currentSession,
  GraphPlaces,
  isCollectiveOp,
  type MemoryAllocation,
  MemoryRecorder,
  type MemoryRecord,
  type MemoryValue,
  Module,
  type Node,
  type Op,
  option,
  type OptionRules,
  type Phase,
  placeInMesh,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { type HeldMemory, heldMemory, type MemoryOptions } from '@shardwise/strategies';
import { z } from 'zod';
import { accountMemory, type BlockName } from './account-memory.ts';
import { type MemoryCategory, type MemoryProfile, memoryProfileSchema } from './memory-profile.ts';

/** Options of `memoryTimeline`. */
export interface MemoryTimelineOptions {
  /** The model, or what parallelize() has returned for one. Its modules name the blocks. */
  readonly model: ProfiledModel;
  /** The optimizer whose states are named. Default: none. */
  readonly optimizer?: MemoryOptions['optimizer'];
}

const rules: OptionRules<Omit<MemoryTimelineOptions, 'model'> & { readonly model: Module }> = {
  model: option.required(option.instanceOf(Module)),
  optimizer: option.object('an optimizer'),
};

const kinds: Readonly<Record<HeldMemory['kind'], MemoryCategory>> = {
  parameter: 'parameters',
  gradient: 'gradients',
  optimizer: 'optimizer states',
  buffer: 'inputs and buffers',
};

const words: Readonly<Record<HeldMemory['kind'], string>> = {
  parameter: 'parameter',
  gradient: 'gradient of',
  optimizer: 'optimizer state of',
  buffer: 'buffer',
};

/** What is known of the nodes of a run. */
interface RunNodes {
  readonly phases: readonly Phase[];
  /** The paths of the modules in which they were made. */
  readonly modules: readonly string[];
  /** Those that are gradients of parameters, by their index. */
  readonly gradients: ReadonlySet<number>;
}

/**
 * Follows the memory of this rank's device: every byte in use, what it is for, and which module and operation made it.
 * It begins at once and ends with `stop`. What a run computes does not change, but values are followed one by one, so
 * that the step takes longer.
 */
export class MemoryTimeline {
  readonly #model: Module;
  readonly #optimizer: MemoryOptions['optimizer'];
  readonly #paths: ReadonlyMap<Module, string>;
  readonly #places: GraphPlaces;
  readonly #recorder: MemoryRecorder;
  /** What was there before, and until when. Infinity: it is still there. */
  readonly #before: Map<HeldMemory, number>;
  #freedMs: number | null = null;
  readonly #runs: RunNodes[] = [];
  #record: MemoryRecord | null = null;
  #profile: MemoryProfile | null = null;

  /** Throws ConfigError for options that are wrong, and for a device that does not count its memory. */
  constructor({ model, ...options }: MemoryTimelineOptions) {
    const module = model instanceof Module ? model : model?.module;
    checkOptions('memoryTimeline', { ...options, model: module }, rules);
    this.#model = module;
    this.#optimizer = options.optimizer;
    this.#paths = new Map(module.namedModules().map(([path, each]) => [each, path]));
    this.#before = new Map(this.#holding().map((each) => [each, Infinity]));
    this.#recorder = new MemoryRecorder(currentSession().backend, {
      run: (nodes) => this.#begin(nodes),
      freedEarlier: (ms) => this.#freedEarlier(ms),
    });
    this.#places = new GraphPlaces();
    for (const each of this.#paths.keys()) this.#places.follow(each);
  }

  /**
   * Computes what is pending, ends the timeline and returns it. A second call returns the same.
   */
  async stop(): Promise<MemoryProfile> {
    if (this.#profile !== null) return this.#profile;
    const session = currentSession();
    const record = await this.#end(() => session.finish());
    const { rank } = placeInMesh(session.mesh);
    const held = this.#holding();
    const names = new Map<MemoryAllocation, BlockName>();
    for (const each of held) {
      const allocation =
        each.memory instanceof Uint8Array ? null : record.allocationOf(each.memory);
      if (allocation != null) names.set(allocation, nameOfHeld(each));
    }
    this.#profile = accountMemory({
      rank,
      record,
      before: Array.from(this.#before)
        .filter(([{ memory }]) => !(memory instanceof Uint8Array))
        .map(([each, toMs]) => ({ ...nameOfHeld(each), bytes: each.memory.byteLength, toMs })),
      nameOf: (value, allocation) => {
        const isKept = value.toMs === Infinity;
        return (isKept && allocation && names.get(allocation)) || this.#nameOf(value);
      },
      nameOfAllocation: (allocation) =>
        allocation.values.length > 0 ? null : (names.get(allocation) ?? nameOfLeaf(allocation)),
    });
    return this.#profile;
  }

  /**
   * Stops, and returns the timelines of all ranks of a world, in their order. It is a collective. Write
   * `memoryPage(profiles)` to a file on one of them.
   */
  async stopAll(world: ProcessGroup): Promise<readonly MemoryProfile[]> {
    const own = await this.stop();
    const all = await allGatherObject(world, JSON.stringify({ ...own, rank: world.rank }));
    return all.map((text) => memoryProfileSchema.parse(JSON.parse(z.string().parse(text))));
  }

  /** Ends watching after `finish`, also if that fails. */
  async #end(finish: () => Promise<void>): Promise<MemoryRecord> {
    try {
      await finish();
    } finally {
      this.#places.close();
      this.#record ??= this.#recorder.end();
    }
    return this.#record;
  }

  #holding(): readonly HeldMemory[] {
    const optimizer = this.#optimizer;
    return heldMemory({ model: this.#model, ...(optimizer && { optimizer }) });
  }

  /**
   * Looks, when all that is freed together has been freed, which of the memory from before is no longer held. Several
   * tensors may share what is freed as one piece.
   */
  #freedEarlier(ms: number): void {
    if (this.#freedMs !== null) return;
    this.#freedMs = ms;
    queueMicrotask(() => {
      this.#freedMs = null;
      const held = new Set(this.#holding().map(({ memory }) => memory));
      for (const [each, toMs] of this.#before) {
        if (toMs === Infinity && !held.has(each.memory)) this.#before.set(each, ms);
      }
    });
  }

  #begin(nodes: readonly Node[]): void {
    const phases: Phase[] = [];
    const modules: string[] = [];
    const gradients = new Set<number>();
    const indices = new Map(nodes.map((node, index) => [node, index]));
    const add = (node: Node): void => {
      const index = indices.get(node);
      if (index !== undefined && phases[index] === 'backward') gradients.add(index);
    };
    for (const node of nodes) {
      const place = this.#places.placeOf(node);
      const innermost = place.modules.findLast((module) => this.#paths.has(module));
      const [input] = node.inputs;
      // Strategies reduce gradients outside of modules.
      const inherited =
        place.phase === 'backward' && input !== undefined ? modules[indices.get(input) ?? -1] : '';
      modules.push((innermost && this.#paths.get(innermost)) ?? inherited ?? '');
      phases.push(place.phase);
      // What an optimizer reads of a backward pass is a gradient of parameters, and so is what parameters keep of it.
      if (place.phase === 'optimizer') node.inputs.forEach(add);
    }
    for (const parameter of this.#model.parameters()) parameter.keptGradients.forEach(add);
    this.#runs.push({ phases, modules, gradients });
  }

  #nameOf({ content }: MemoryValue): BlockName {
    const { op, shape, dtype, node, run } = content;
    const ofRun = this.#runs[run];
    const phase = ofRun?.phases[node] ?? 'forward';
    return {
      category: categoryOf(op, phase, ofRun?.gradients.has(node) ?? false),
      module: ofRun?.modules[node] ?? '',
      operation: `${op} [${shape.join(', ')}] ${dtype}, ${phase}`,
    };
  }
}

/**
 * Begins a timeline of the memory of this rank's device: bytes over time by what they are for, with the module and the
 * operation of each block, and what lay in memory at the peak. Throws ConfigError.
 */
export function memoryTimeline(options: MemoryTimelineOptions): MemoryTimeline {
  return new MemoryTimeline(options);
}

function categoryOf(op: Op, phase: Phase, isGradient: boolean): MemoryCategory {
  if (isGradient) return 'gradients';
  const isForward = phase === 'forward' || phase === 'recomputation';
  return isForward && !isCollectiveOp(op) ? 'activations' : 'temporary';
}

function nameOfHeld({ kind, name }: HeldMemory): BlockName {
  const module = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : '';
  return { category: kinds[kind], module, operation: `${words[kind]} ${name}` };
}

function nameOfLeaf({ leaf }: MemoryAllocation): BlockName | null {
  if (leaf === null) return null;
  const operation = `input [${leaf.shape.join(', ')}] ${leaf.dtype}`;
  return { category: 'inputs and buffers', module: '', operation };
}
