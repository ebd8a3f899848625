import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRule, OptionRules } from '../../base/option-rules.ts';
import { newestNodeId } from '../../graph/create-node.ts';
import { printing } from '../../print/inspect.ts';
import { placeInMesh } from '../../mesh.ts';
import { currentSession } from '../../rank.ts';
import { ConfigError } from '../../spec/errors.ts';
import { Module } from '../module/module.ts';
import { nodesIn } from '../summary/tensors-in.ts';
import type { FlopConvention } from './flop-rules.ts';
import { formatProfile, type FormatProfileOptions } from './format-profile.ts';
import { GraphLedger, type Work } from './graph-ledger.ts';
import { measureModules } from './measure-modules.ts';
import type { ModelProfile, ModuleProfile } from './model-profile.ts';
import { openReport, type WriteReport } from './profile-file.ts';

type ModuleType = abstract new (...given: never[]) => Module;

/** Options of `flopsProfiler`. The names are those of DeepSpeed, except `convention`. */
export interface FlopsProfilerOptions extends FormatProfileOptions {
  /** What counts as an operation: as DeepSpeed counts, or products alone, as PyTorch does. Default: 'deepspeed'. */
  readonly convention?: FlopConvention;
  /** Classes of modules that count nothing, with all that they call. Default: none. */
  readonly ignoreModules?: readonly ModuleType[];
  /**
   * The file to which rank 0 writes the report, in the place of what it contains. Missing folders are created. Pages have no files.
   * Default: none.
   */
  readonly outputFile?: string;
}

const moduleType: OptionRule<ModuleType> = {
  fits: (value): value is ModuleType =>
    typeof value === 'function' && Module.prototype.isPrototypeOf(value.prototype),
  expected: 'a class of modules',
};

export const profilerRules: OptionRules<FlopsProfilerOptions> = {
  convention: option.oneOf<FlopConvention>('deepspeed', 'pytorch'),
  ignoreModules: option.listOf(moduleType),
  outputFile: option.nonEmptyText,
  moduleDepth: option.integer(-1),
  topModules: option.integer(1),
  detailed: option.flag,
};

/** A model, or what parallelize() has returned for one. */
export type ProfiledModel = Module | { readonly module: Module };

/**
 * Counts the operations of what a model and its training step do on this rank, by module. Between `startProfile` and
 * `stopProfile`, it counts the programs that run: forward and backward passes, what a backward pass computes again, and
 * the optimizer. With a strategy, these are the programs of the parts that this rank has. Outside of that, it costs
 * nothing.
 */
export class FlopsProfiler {
  readonly #model: Module;
  readonly #options: FlopsProfilerOptions;
  #ledger: GraphLedger | null = null;
  #olderId = 0;
  #startMs = 0;
  #write: WriteReport | undefined;
  #forwardMs: ReadonlyMap<Module | null, number> | null = null;
  #backwardMs: number | undefined;

  /** Throws ConfigError for what is no model, and for options that are wrong. */
  constructor(model: ProfiledModel, options: FlopsProfilerOptions = {}) {
    const module = model instanceof Module ? model : model?.module;
    const ofModel: OptionRules<{ model: Module }> = {
      model: option.required(option.instanceOf(Module)),
    };
    checkOptions('flopsProfiler', { model: module }, ofModel);
    checkOptions('flopsProfiler', options, profilerRules);
    this.#model = module;
    this.#options = options;
  }

  /**
   * Begins to count. Call it before the forward pass. Throws ConfigError if it counts already, or if `outputFile` cannot
   * be written.
   */
  startProfile(): void {
    if (this.#ledger !== null) throw notInOrder('startProfile()', 'it counts already');
    const { convention = 'deepspeed', ignoreModules = [], outputFile } = this.#options;
    this.#write = outputFile === undefined ? undefined : openReport(outputFile);
    const modules = this.#model.namedModules().map(([, module]) => module);
    this.#ledger = new GraphLedger(modules, convention, (module) =>
      ignoreModules.some((type) => module instanceof type),
    );
    this.#olderId = newestNodeId();
    this.#startMs = performance.now();
    this.#forwardMs = null;
    this.#backwardMs = undefined;
  }

  /**
   * Computes what the forward pass has built, one module after the other, and takes the time of each. `output` is the
   * tensor that the pass has returned, such as the loss, or a list or record of tensors. Call it before backward(). It
   * changes no values, but modules are then not fused, so this step is slower than others. Without this call, a profile
   * has no times of modules. Throws ConfigError before startProfile.
   */
  async measureForward(output: unknown): Promise<void> {
    const ledger = this.#counting('measureForward()');
    this.#forwardMs = await measureModules(nodesIn(output), this.#olderId, (node) =>
      ledger.modulesOf(node),
    );
  }

  /** Computes the gradients that backward() has built, and takes the time. Throws ConfigError before startProfile. */
  async measureBackward(): Promise<void> {
    this.#counting('measureBackward()');
    const start = performance.now();
    await currentSession().realize([]);
    this.#backwardMs = performance.now() - start;
  }

  /**
   * Ends counting, and returns what was counted. Writes it to `outputFile`, if there is one. What the program has built
   * and nothing has computed does not count, so await the step before. Throws ConfigError before startProfile, and if the
   * file cannot be written any more.
   */
  stopProfile(): ModelProfile {
    const ledger = this.#counting('stopProfile()');
    const totalMs = performance.now() - this.#startMs;
    this.#ledger = null;
    ledger.close();
    const modules = this.#model
      .namedModules()
      .map(([path, module]) => this.#profileOf(path, module, ledger));
    const whole = this.#workOf(this.#model, ledger).forward;
    const profile: ModelProfile = {
      modules,
      flops: whole.flops,
      macs: whole.macs,
      params: modules[0]?.params ?? 0,
      work: ledger.workOf(null),
      worldSize: placeInMesh(currentSession().mesh).worldSize,
      forwardMs: this.#forwardMs?.get(null),
      backwardMs: this.#backwardMs,
      totalMs,
    };
    Object.defineProperties(
      profile,
      printing<ModelProfile>((self) => formatProfile(self, this.#options)),
    );
    this.#write?.(profile.toString());
    return profile;
  }

  #counting(asked: string): GraphLedger {
    if (this.#ledger === null) throw notInOrder(asked, 'startProfile() has not been called');
    return this.#ledger;
  }

  /** A model that is not called itself, as in generate(), has done all that has run. */
  #workOf(module: Module, ledger: GraphLedger): Work {
    const isAll = module === this.#model && ledger.callsOf(module) === 0;
    return ledger.workOf(isAll ? null : module);
  }

  #profileOf(path: string, module: Module, ledger: GraphLedger): ModuleProfile {
    const parameters = module.parameters();
    const times = this.#forwardMs;
    return {
      path,
      type: module.constructor.name,
      description: module.toString(),
      calls: ledger.callsOf(module),
      params: parameters.reduce((sum, { numel }) => sum + numel, 0),
      paramsOfRank: parameters.reduce((sum, { part }) => sum + part.numel, 0),
      work: this.#workOf(module, ledger),
      forwardMs: times === null ? undefined : (times.get(module) ?? 0),
    };
  }
}

/** Returns a profiler of a model, or of what parallelize() has returned for one. Throws ConfigError. */
export function flopsProfiler(
  model: ProfiledModel,
  options: FlopsProfilerOptions = {},
): FlopsProfiler {
  return new FlopsProfiler(model, options);
}

function notInOrder(asked: string, found: string): ConfigError {
  return new ConfigError({
    asked: `${asked} of a profiler`,
    found,
    todo: 'Call startProfile(), train a step, and call stopProfile()',
  });
}
