import { currentScope } from '../../ambient.ts';
import { kindOf } from '../../base/dtype-kind.ts';
import { requireDTypeName } from '../../dtype-name.ts';
import { inspecting } from '../../print/inspect.ts';
import type { DType } from '../../spec/dtype.ts';
import { ConfigError } from '../../spec/errors.ts';
import type { ModelDivision } from '../../spec/strategy.ts';
import { brandMember } from '../../member-brand.ts';
import { checkCalls } from '../../tensor/check-calls.ts';
import type { FullBackwardHook } from './backward-hooks.ts';
import { type ForwardHook, ForwardHooks, type ForwardPreHook } from './forward-hooks.ts';
import { constructions } from '../construction/constructions.ts';
import { hiddenError, hiddenMember, missingError } from './hidden-member.ts';
import { BufferTensor, isOwnedTensor, Parameter } from '../parameter/parameter.ts';
import {
  readStateDict,
  writeStateDict,
  type LoadOptions,
  type LoadReport,
  type StateDict,
} from '../state/state-dict.ts';

/** A name and the object with this name. */
export type Named<T> = readonly [name: string, value: T];

/**
 * A part of a model. The public fields that hold a Parameter, a BufferTensor or a Module are its members, in
 * the order in which they were declared or assigned. Put lists of modules into a ModuleList. If a module holds
 * others in `#private` fields, in arrays, Maps or plain objects, everything that looks for members throws
 * ConfigError. Subclasses have a `forward` with their own signature.
 */
export abstract class Module {
  static {
    Object.defineProperties(
      this.prototype,
      inspecting<Module>((module) => module.toString()),
    );
    brandMember(this.prototype, 'module');
    checkCalls<Module>(this.prototype, {
      apply: 'H',
      loadStateDict: '..',
      registerForwardHook: 'H',
      registerForwardPreHook: 'H',
      registerFullBackwardHook: 'H',
      requiresGrad_: 'f',
      train: 'f',
    });
  }

  #training = true;
  #hooks: ForwardHooks<Module> | null = null;
  /**
   * Whether the search for hidden members is running. It calls namedChildren(), which in a subclass may call it again.
   */
  #isLooking = false;

  constructor() {
    const membersOf = Module.#membersOf;
    constructions.begin(this, { base: Module, type: new.target, membersOf });
  }

  /** Whether layers like dropout behave as in training. It is true at first. */
  get training(): boolean {
    return this.#training && !currentScope().isEvaluating;
  }

  train(mode = true): this {
    this.#requireMembers();
    this.#training = mode;
    for (const [, child] of this.namedChildren()) child.train(mode);
    return this;
  }

  eval(): this {
    return this.train(false);
  }

  /** How strategies divide the module among ranks if they are not told otherwise. Default: it does not say. */
  division?(): ModelDivision;

  /** The modules that are members of this module itself. */
  namedChildren(): Named<Module>[] {
    return this.#own(isModule);
  }

  get children(): Module[] {
    return this.namedChildren().map(([, child]) => child);
  }

  /** This module with the name '' and all modules below it, parents first, each once. */
  namedModules(): Named<Module>[] {
    return [...walk(this, '', new Set())];
  }

  /** The parameters that are members of this module itself. */
  ownParameters(): Named<Parameter>[] {
    return this.#own((value) => value instanceof Parameter);
  }

  /** The parameters with their names. A parameter that modules share occurs once, with its first name. */
  namedParameters(): Named<Parameter>[] {
    return firstNames(this.#all((module) => module.ownParameters()));
  }

  parameters(): Parameter[] {
    return this.namedParameters().map(([, parameter]) => parameter);
  }

  namedBuffers(): Named<BufferTensor>[] {
    return firstNames(this.#all((module) => module.#own((value) => value instanceof BufferTensor)));
  }

  /** The parameters and the persistent buffers. Shared ones occur under all their names. */
  namedState(): Named<Parameter | BufferTensor>[] {
    const own = (module: Module): Named<Parameter | BufferTensor>[] => [
      ...module.#own((value) => value instanceof Parameter),
      ...module.#own((value) => value instanceof BufferTensor).filter(
        ([, buffer]) => buffer.persistent,
      ),
    ];
    return [...this.#all(own, null)];
  }

  zeroGrad(): void {
    for (const parameter of this.parameters()) parameter.zeroGrad();
  }

  /** Makes all parameters train, or none of them. */
  requiresGrad_(requiresGrad = true): this {
    for (const parameter of this.parameters()) parameter.requiresGrad_(requiresGrad);
    return this;
  }

  /** Calls `visit` on every module below this one, children first, and then on this one. */
  apply(visit: (module: Module) => void): this {
    for (const [, child] of this.namedChildren()) child.apply(visit);
    visit(this);
    return this;
  }

  /**
   * The module at a path of names, such as `layers.0.attention`; '' for this one. Throws ConfigError if there
   * is none.
   */
  getSubmodule(path: string): Module {
    const names = path === '' ? [] : path.split('.');
    return names.reduce<Module>((module, name) => {
      const children = module.namedChildren();
      const next = children.find(([child]) => child === name)?.[1];
      if (next === undefined) throw noSubmodule(this.constructor.name, path, name, children);
      return next;
    }, this);
  }

  /**
   * Converts float parameters and buffers to another float dtype, for example for an evaluation in fewer bits.
   * Call it before parallelize() and before you make the optimizer. Optimizers update parameters of f32, so to
   * train, use the mixedPrecision of a strategy instead. Throws ConfigError for a dtype that is not a float,
   * and for parameters that are sharded over ranks.
   */
  async to(dtype: DType): Promise<this> {
    requireDTypeName(`${this.constructor.name}.to()`, dtype);
    const tensors = [...this.namedParameters(), ...this.namedBuffers()];
    for (const [name, tensor] of tensors) requireConvertible(name, tensor, dtype);
    const replacements = new Map<Parameter | BufferTensor, Parameter | BufferTensor>();
    for (const [, tensor] of tensors) {
      if (kindOf(tensor.dtype) !== 'float' || tensor.dtype === dtype) continue;
      replacements.set(tensor, await inDType(tensor, dtype));
    }
    this.#replace(tensors, replacements);
    for (const [, module] of this.namedModules()) module.converted(dtype);
    return this;
  }

  /**
   * `hook` runs before each call of forward(), with its inputs, and may return a list of other inputs
   * (torch.nn.Module's register_forward_pre_hook). Returns a function that removes the hook.
   */
  registerForwardPreHook(hook: ForwardPreHook<Module>): () => void {
    return (this.#hooks ??= new ForwardHooks()).addBefore(this, hook);
  }

  /**
   * `hook` runs after each call of forward(), with its inputs and output, and may return another output.
   * Returns a function that removes the hook.
   */
  registerForwardHook(hook: ForwardHook<Module>): () => void {
    return (this.#hooks ??= new ForwardHooks()).addAfter(this, hook);
  }

  /**
   * `hook` runs in backward() with the gradients of this module's inputs and outputs, and may return a list of
   * other gradients of the inputs (torch.nn.Module's register_full_backward_hook). If no input has a gradient,
   * it gets nulls as soon as the gradients of the outputs are there. Returns a function that removes the hook.
   */
  registerFullBackwardHook(hook: FullBackwardHook<Module>): () => void {
    return (this.#hooks ??= new ForwardHooks()).addBackward(this, hook);
  }

  /**
   * Replaces parameters by others, wherever this module or a module below it holds them. The replaced ones can
   * no longer be used. The tree of modules is walked once for each call, so replace all parameters together.
   */
  replaceParameters(replacements: ReadonlyMap<Parameter, Parameter>): void {
    this.#replace(this.namedParameters(), replacements);
  }

  #replace<T extends Parameter | BufferTensor>(
    named: readonly Named<T>[],
    replacements: ReadonlyMap<unknown, T>,
  ): void {
    for (const [name, old] of named) if (replacements.has(old)) old.markReplaced(name);
    for (const [, module] of this.namedModules()) {
      for (const [key, value] of Object.entries(module)) {
        const replacement = replacements.get(value);
        if (replacement !== undefined) Reflect.set(module, key, replacement);
      }
    }
  }

  /**
   * Copies the whole parameters and persistent buffers to the host, with any strategy. If ranks share parameters out,
   * this is a collective. As in PyTorch, shared tensors occur under all their names. Pending values are computed.
   */
  stateDict(): Promise<StateDict> {
    return readStateDict(this.namedState());
  }

  /**
   * Overwrites parameters and buffers in place. Each rank overwrites its parts. Throws a CheckpointError, before
   * anything changes, that lists missing and unexpected names (if strict) and differing shapes together.
   */
  loadStateDict(dict: StateDict, options: LoadOptions = {}): Promise<LoadReport> {
    return writeStateDict(this.constructor.name, this.namedState(), dict, options);
  }

  /** The tree of modules, as PyTorch prints it. */
  toString(): string {
    const own = this.describe();
    const children = this.#childrenAsTheyAre();
    if (children.length === 0) return `${this.constructor.name}(${own})`;
    const lines = children.map(([name, child]) => `(${name}): ${child.toString()}`);
    const body = [...(own === '' ? [] : [own]), ...lines].join('\n').replaceAll('\n', '\n  ');
    return `${this.constructor.name}(\n  ${body}\n)`;
  }

  /** The text between the parentheses of `toString()`. */
  protected describe(): string {
    return '';
  }

  /** Returns the name of a member, which in PyTorch may differ from the name of its field. */
  protected nameOf(field: string): string {
    return field;
  }

  /** Called when `to` of this module, or of one above it, has converted all floats. Default: nothing is left to do. */
  protected converted(_dtype: DType): void {}

  #own<T>(is: (value: unknown) => value is T): Named<T>[] {
    this.#requireMembers();
    return this.#fields(is);
  }

  #fields<T>(is: (value: unknown) => value is T): Named<T>[] {
    const fields: [string, unknown][] = Object.entries(this);
    return fields.flatMap(([field, value]) => (is(value) ? [[this.nameOf(field), value]] : []));
  }

  /** The children without a check for hidden members. */
  #childrenAsTheyAre(): Named<Module>[] {
    const isContainer = this.namedChildren !== Module.prototype.namedChildren;
    return isContainer ? this.namedChildren() : this.#fields(isModule);
  }

  /** Throws ConfigError if this module hides a member, which would not be found. */
  #requireMembers(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      this.#refuseHidden();
    } finally {
      this.#isLooking = false;
    }
  }

  #refuseHidden(): void {
    let held: ReadonlySet<object> | undefined;
    const isHeld = (member: object): boolean => (held ??= this.#held()).has(member);
    const fields: [string, unknown][] = Object.entries(this);
    for (const [field, value] of fields) {
      const hidden = hiddenMember(value, isHeld);
      if (hidden !== undefined) throw hiddenError(this, field, hidden);
    }
    const missing = constructions.missingOf(this, Module.#membersOf);
    if (missing.length > 0) throw missingError(this, missing);
  }

  /** This module and all below it, with their parameters and buffers. */
  #held(): ReadonlySet<object> {
    const held = new Set<object>([this]);
    for (const object of held) for (const member of Module.#membersOf(object)) held.add(member);
    return held;
  }

  static #membersOf(this: void, object: object): readonly object[] {
    if (!(object instanceof Module)) return [];
    const members = [...object.#childrenAsTheyAre(), ...object.#fields(isOwnedTensor)];
    return members.map(([, member]) => member);
  }

  *#all<T>(
    own: (module: Module) => Named<T>[],
    seen: Set<Module> | null = new Set(),
  ): Generator<Named<T>> {
    for (const [path, module] of walk(this, '', seen)) {
      for (const [name, value] of own(module)) yield [join(path, name), value];
    }
  }
}

/** Walks the tree of modules. Without `seen`, a module that is held twice is visited twice. */
function* walk(module: Module, path: string, seen: Set<Module> | null): Generator<Named<Module>> {
  if (seen?.has(module)) return;
  seen?.add(module);
  yield [path, module];
  for (const [name, child] of module.namedChildren()) yield* walk(child, join(path, name), seen);
}

function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function firstNames<T>(named: Iterable<Named<T>>): Named<T>[] {
  const first = new Map<T, Named<T>>();
  for (const entry of named) if (!first.has(entry[1])) first.set(entry[1], entry);
  return [...first.values()];
}

function isModule(value: unknown): value is Module {
  return value instanceof Module;
}

/** Makes a tensor of another dtype with the same values, rounded, and the same options. */
async function inDType(
  tensor: Parameter | BufferTensor,
  dtype: DType,
): Promise<Parameter | BufferTensor> {
  const { shape } = tensor;
  const data = await tensor.detach().to(dtype).data();
  return tensor instanceof Parameter
    ? new Parameter(data, shape, { dtype, requiresGrad: tensor.requiresGrad })
    : new BufferTensor(data, shape, { dtype, persistent: tensor.persistent });
}

function requireConvertible(name: string, tensor: Parameter | BufferTensor, dtype: DType): void {
  const isShared = tensor.part !== tensor;
  if (kindOf(dtype) === 'float' && !isShared) return;
  throw new ConfigError(
    {
      asked: `to have '${name}' in ${dtype}`,
      found: isShared ? 'a strategy has put another one in its place' : 'a dtype that is no float',
      todo: isShared ? 'Call to() before parallelize()' : "Use a float, as 'bf16'",
    },
    { name, dtype },
  );
}

function noSubmodule(
  of: string,
  path: string,
  missing: string,
  children: readonly Named<Module>[],
): ConfigError {
  const names = children.map(([name]) => name).join(', ');
  return new ConfigError(
    {
      asked: `the module '${path}' of ${of}`,
      found: `no module '${missing}' where there are ${names === '' ? 'none' : names}`,
      todo: 'Use names that namedModules() gives',
    },
    { path, missing },
  );
}
