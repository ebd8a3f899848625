import { checkBackward } from '../autograd/check-backward.ts';
import { checkGradientTypes } from '../autograd/check-gradient-types.ts';
import { walkBackward } from '../autograd/walk.ts';
import { endRecomputation, recomputing } from '../autograd/recompute.ts';
import { gradientsOfNode } from '../autograd/rules.ts';
import { kindOf } from '../dtype.ts';
import { withoutAutocast } from '../graph/autocast.ts';
import { where } from '../graph/build/elementwise.ts';
import { constantLike } from '../graph/build/leaf.ts';
import { article } from '../graph/infer-checks.ts';
import { createNode, noGrad } from '../graph/create-node.ts';
import { isOp, none, type Node } from '../graph/node.ts';
import { unknownFault } from '../graph/row-counts.ts';
import { freeNode, hostBytes } from '../graph/ownership.ts';
import { brandMember } from '../member-brand.ts';
import type { PageStore } from '../paging/page.ts';
import { describeTensor } from '../print/describe-tensor.ts';
import { inspecting } from '../print/inspect.ts';
import { currentSession, isComputing } from '../rank.ts';
import { addPending, isPiledUp, removePending, restorePending } from '../realize/pending.ts';
import { noteValue, withoutValues } from '../realize/small-values.ts';
import { type AfterBackward, currentScope, rankState, within } from '../ambient.ts';
import { replicated, shardedAxes } from '../layout/layout.ts';
import { elementCount, formatShape } from '../shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import { DTypeError, ShapeError, TensorStateError } from '../spec/errors.ts';
import { leafOfConstant } from './constant-leaf.ts';
import { dataOfRows } from './data-of-rows.ts';
import { Gradient, type GradientHook, type GradientReduction, type Update } from './gradient.ts';
import { averagedLater, type Updater } from './updater.ts';
import { fromBytes, onlyElement, type HostData } from './host-data.ts';

const nowhere: readonly string[] = [];

const { afterBackward } = rankState;

/** Runs `callback` when the current backward pass has ended. This is for hooks. */
export function queueAfterBackward(callback: AfterBackward): void {
  afterBackward.push(callback);
}

/**
 * What is assigned inside `body` keeps its old contents where `condition`, which the same run
 * computes, turns out to be true: a step that all ranks skip alike; null is no condition. Shape:
 * condition bool [].
 */
export function keepingIf<T>(condition: Node | null, body: () => T): T {
  return within('keepingIf', { keptIf: condition }, body);
}

/** State and life of a tensor: its node, its gradient, its data. The operations are in Tensor. */
export class TensorHandle {
  static {
    const inspects = inspecting<TensorHandle>((tensor, form) =>
      describeTensor(tensor, form, isComputing()),
    );
    Object.defineProperties(this.prototype, inspects);
    brandMember(this.prototype, 'tensor');
  }

  #node: Node;
  #varyingOver: readonly string[] = nowhere;
  #gradient: Gradient | null = null;
  #updater: Updater | null = null;
  /** The name under which a model held it, where it holds another one now. */
  #formerName: string | null = null;

  constructor(node: Node) {
    this.#node = node;
    noteValue(node);
  }

  /** What holds the contents; `node` of a subclass may show something else in its place. */
  get contents(): Node {
    return this.#node;
  }

  /** The graph's node that expressions over this tensor read now. Throws TensorStateError for one that was replaced. */
  get node(): Node {
    this.checkNotReplaced();
    return this.#node;
  }

  /** Has every use of this tensor fail from now on, as its model has another one in its place under `name`. */
  markReplaced(name: string): void {
    this.#formerName = name;
  }

  /** Throws TensorStateError where a model has put another tensor in the place of this one. */
  checkNotReplaced(): void {
    if (this.#formerName === null) return;
    throw new TensorStateError(
      {
        asked: `to use a parameter of shape ${formatShape(this.#node.shape)}`,
        found: `parallelize() or to() has put another one in its place, which the model has as '${this.#formerName}'`,
        todo: 'Make optimizers after parallelize() and to(), and take parameters from the model where you use them',
      },
      { parameter: this.#formerName, shape: this.#node.shape },
    );
  }

  get shape(): Shape {
    return this.node.shape;
  }

  get dtype(): DType {
    return this.node.dtype;
  }

  /** Number of dims. */
  get ndim(): number {
    return this.shape.length;
  }

  /** Number of elements. */
  get numel(): number {
    return elementCount(this.shape);
  }

  /** What part it is of the tensor that the ranks have together. */
  get layout(): Layout {
    const { varyingOver } = this;
    const whole = replicated(this.wholeShape);
    return varyingOver.length === 0 ? whole : { ...whole, varying: varyingOver };
  }

  /** Of the tensor that the ranks have together: its own, but for a part. */
  get wholeShape(): Shape {
    return this.contents.shape;
  }

  /** Mesh axes whose ranks have other parts of the tensor that this is a part of. */
  get shardedOver(): readonly string[] {
    return shardedAxes(this.layout);
  }

  /** Mesh axes whose ranks each have a value of their own of this tensor. */
  get varyingOver(): readonly string[] {
    return this.#varyingOver;
  }

  /**
   * Says that each rank of these mesh axes has a value of its own, as where ranks train without
   * communication: a checkpoint keeps them all. Without axes, that all ranks have the same.
   */
  markVarying(axes: readonly string[]): this {
    this.#varyingOver = axes;
    return this;
  }

  get requiresGrad(): boolean {
    return this.node.requiresGrad;
  }

  /**
   * Makes a leaf train (or not). One that does not keeps the gradient that it has, and its hooks. Throws
   * TensorStateError on a tensor that is computed from others, DTypeError on integers.
   */
  requiresGrad_(requiresGrad = true): this {
    this.checkNotReplaced();
    const { dtype, shape } = this.#node;
    if (requiresGrad && kindOf(dtype) !== 'float') {
      throw new DTypeError(
        {
          asked: `requiresGrad_ of ${article(dtype)} ${dtype} tensor of shape ${formatShape(shape)}`,
          found: 'only floats have gradients',
          todo: "Convert the data with .to('f32') before it becomes a leaf",
        },
        { dtype },
      );
    }
    this.#takeContents();
    const isUpdate = this.#node.op === 'assign';
    if (this.#node.op !== 'input' && !isUpdate) {
      throw new TensorStateError(
        {
          asked: `requiresGrad_ on a tensor computed by ${this.#node.op}`,
          found: 'only leaves (tensors made from data) collect gradients',
          todo: 'Call it on the leaf',
        },
        { op: this.#node.op },
      );
    }
    const sink = requiresGrad ? this.#collected() : null;
    for (const node of isUpdate ? [this.#node, leafOf(this.#node)] : [this.#node]) {
      node.requiresGrad = requiresGrad;
      node.sink = sink;
    }
    return this;
  }

  /** What was made of a number alone, as by `zeros`, is a leaf, too, where it is to be one. */
  #takeContents(): void {
    const node = this.#node;
    if (node.value === null && isOp(node, 'constant')) this.#node = leafOfConstant(node) ?? node;
  }

  #collected(): Gradient {
    this.#gradient ??= new Gradient();
    return this.#gradient;
  }

  /** The gradient's node; null before backward() and after zeroGrad(). */
  get gradientNode(): Node | null {
    this.checkNotReplaced();
    return this.#gradient?.node ?? null;
  }

  /** Replaces the gradient, for example by its mean over ranks. */
  setGradientNode(node: Node): void {
    this.checkNotReplaced();
    const gradient = this.#gradient;
    if (gradient === null) throw this.#notTrained('to set the gradient');
    if (this.#updater?.averagesLater === true) throw averagedLater(this.#updater);
    gradient.replace(node);
  }

  /** Who updates it in the place of optimizers; null: they do. */
  get updater(): Updater | null {
    return this.#updater;
  }

  set updater(updater: Updater | null) {
    this.#updater = updater;
  }

  /** What is kept of the gradient in memory. */
  get keptGradients(): readonly Node[] {
    return this.#gradient?.kept ?? [];
  }

  /** Has a strategy take the gradients of this leaf, which need not train yet, from now on. Returns them. */
  reduceGradient(reduction: GradientReduction): Gradient {
    const gradient = this.#collected();
    gradient.reduceBy(reduction);
    return gradient;
  }

  /** Has `check` look at the loss of each backward pass that comes to this leaf, before any gradient is computed. For strategies. */
  checkLosses(check: ((loss: Node) => void) | null): void {
    this.#collected().checkLoss = check;
  }

  /** Throws TensorStateError where `update` would not use the gradient that it should. */
  checkUpdate(update: Update): void {
    this.checkNotReplaced();
    this.#gradient?.checkUpdate(update);
  }

  zeroGrad(): void {
    this.checkNotReplaced();
    this.#gradient?.clear();
  }

  /**
   * Keeps gradients in a store from now on, under `name`: each leaves the device as soon as it is
   * computed, and a run that reads it has it there for as long as it needs it.
   */
  pageGradient(name: string, store: PageStore): void {
    this.checkNotReplaced();
    this.#collected().pages = { store: currentSession().numberOf(store), name };
  }

  /** As registerPostAccumulateGradHook of Tensor. */
  whenAccumulated(hook: GradientHook): () => void {
    if (!this.requiresGrad) throw this.#notTrained('to hook the gradient');
    const { hooks } = this.#collected();
    hooks.add(hook);
    return () => hooks.delete(hook);
  }

  /** As registerHook of Tensor. */
  changeGradient(change: (gradient: Node) => Node): () => void {
    const { node } = this;
    if (!node.requiresGrad) throw this.#notTrained('to hook the gradient');
    // An update of a leaf, and the leaf itself, have the same hooks.
    const leaf = node.op === 'assign' ? leafOf(node) : node;
    const hooks = (leaf.gradientHooks ??= new Set());
    node.gradientHooks = hooks;
    hooks.add(change);
    return () => hooks.delete(change);
  }

  #notTrained(asked: string): TensorStateError {
    return new TensorStateError(
      {
        asked: `${asked} of a tensor of shape ${formatShape(this.shape)}`,
        found: 'it does not require a gradient',
        todo: 'Call requiresGrad_() first',
      },
      { shape: this.shape },
    );
  }

  /**
   * Adds the gradients of a scalar, or of a tensor that is owed `gradient`, to the leaves that require them. Those of several losses, and of
   * one loss several times, add up in any order: the graph is kept as with PyTorch's `retain_graph`,
   * until tensors of it are updated. Builds graph only; the next realization computes loss and gradients
   * together. Throws ShapeError for a tensor of several elements without `gradient`, or for one of another shape, TensorStateError where
   * nothing requires a gradient, where a gradient stands in the scalar, or where what a gradient reads was updated since the forward pass,
   * and LayoutError for a gradient that a leaf of declared axis types is not owed, or a loss that ranks which share out layers do not have as one.
   */
  backward(gradient?: TensorHandle): void {
    const root = this.node;
    checkBackward(root, gradient?.shape);
    this.#walkBackward(root, gradient?.node ?? null);
    if (root.value === null) addPending(root);
    if (isPiledUp()) currentSession().computeAhead();
  }

  /** Hooks of a pass that fails on its way must not reach into the next one. */
  #walkBackward(root: Node, gradient: Node | null): void {
    try {
      withoutAutocast(() =>
        withoutValues(() => {
          noGrad(() =>
            walkBackward([{ output: root, gradient: gradient ?? constantLike(root, 1) }], {
              needs: (node) => node.requiresGrad,
              isLeaf: (node) => node.sink !== null || node.op === 'input' || node.op === 'assign',
              onStart: (leaves) => {
                for (const leaf of leaves) leaf.sink?.expect?.(gradient === null ? root : null);
              },
              gradientsOf: recomputing(gradientsOfNode),
              onLeaf: (leaf, gradient) => {
                if (gradient === null) return;
                checkGradientTypes(leaf, gradient);
                leaf.sink?.accumulate(gradient);
              },
            }),
          );
          while (afterBackward.length > 0) afterBackward.shift()?.(true);
        }),
      );
    } finally {
      for (const callback of afterBackward.splice(0)) callback(false);
      endRecomputation();
    }
  }

  /**
   * Gives this leaf new contents, in place, at the next realization. Expressions written before
   * keep the old value if they are computed in the same realization. Shape: value N -> N.
   */
  assign(value: TensorHandle): this {
    const { keptIf: condition } = currentScope();
    if (condition === null) return this.store(value.node);
    return this.store(noGrad(() => where(condition, this.node, value.node)));
  }

  /** How the new contents are stored; without regard to keepingIf. Shape: value N -> N. */
  store(value: Node): this {
    this.checkNotReplaced();
    this.#updater?.checkAssign();
    this.#takeContents();
    const target = this.#node;
    const update = noGrad(() => createNode('assign', none, [target, value]));
    const leaf = leafOf(target);
    leaf.resident = true;
    update.sink = leaf.sink;
    update.gradientHooks = leaf.gradientHooks;
    update.requiresGrad = leaf.requiresGrad;
    this.#node = update;
    const earlier = removePending(target);
    const outcome = {
      settled: () => {
        if (this.#node === update) this.#node = leaf;
      },
      dropped: () => {
        if (this.#node === update) this.#node = target;
        if (earlier !== undefined && target.value === null) restorePending([[target, earlier]]);
      },
    };
    addPending(update, outcome, earlier);
    if (isPiledUp()) currentSession().computeAhead();
    return this;
  }

  /** Keeps the contents on the device between steps: parameters, buffers, optimizer state. */
  makeResident(): this {
    this.#takeContents();
    leafOf(this.#node).resident = true;
    return this;
  }

  /**
   * Has the next realization compute this tensor too, so that a metric of a step is computed with
   * the step and can be read after it.
   */
  retain(): this {
    if (this.#node.value === null) addPending(this.#node);
    return this;
  }

  /**
   * Keeps the contents in a store from now on, under `name`, and not on the device: a run that reads
   * them has them there for as long as it needs them. An update brings them back to the device.
   */
  async pageOut(name: string, store: PageStore): Promise<void> {
    this.checkNotReplaced();
    if (this.#node.value === null) await currentSession().realize([this.#node]);
    await currentSession().pageOut(leafOf(this.#node), name, store);
  }

  /** Computes the tensor (and whatever is pending) and keeps it on the device. */
  async realize(): Promise<this> {
    if (this.node.rowCount !== null) {
      throw unknownFault('realize', [this.node], 'what is kept has a size that is known');
    }
    await currentSession().realize([this.node]);
    return this;
  }

  /** The elements, row by row; f16 and bf16 as their raw bits. Computes the tensor if need be. */
  async data(): Promise<HostData> {
    const { node } = this;
    if (node.rowCount !== null) return dataOfRows(node, node.rowCount);
    const bytes =
      node.value?.kind === 'host' ? hostBytes(node.value) : await currentSession().fetch(node);
    return fromBytes(bytes, node.dtype);
  }

  /** The value of a tensor of one element. Throws ShapeError for others, and DTypeError beyond 2^53. */
  async item(): Promise<number> {
    if (this.numel !== 1) {
      throw new ShapeError(
        {
          asked: `item() of a tensor of shape ${formatShape(this.shape)}`,
          found: `${this.numel} elements`,
          todo: 'Use data(), or reduce it to one element',
        },
        { shape: this.shape },
      );
    }
    return onlyElement(await this.data(), this.dtype);
  }

  /**
   * Dtype, shape, part and place, and the values where they lie in memory of the host, as PyTorch prints
   * them. Computes nothing, and waits for nothing.
   */
  toString(): string {
    return describeTensor(this, 'lines', isComputing());
  }

  /** What JSON.stringify writes for a tensor, whose values may not be computed yet. */
  toJSON(): string {
    return this.toString();
  }

  /** Throws TensorStateError where a number is asked for, as by `loss < 0.1` and `x * 2`. */
  [Symbol.toPrimitive](hint: 'string' | 'number' | 'default'): string {
    if (hint !== 'number') return this.toString();
    throw new TensorStateError(
      {
        asked: `a number, of a ${this.constructor.name} of shape ${formatShape(this.shape)}`,
        found: 'a tensor is computed when it is read, and operators cannot wait for that',
        todo: 'Read it with `await x.item()`, or use methods, as x.mul(2) and x.lt(0.1)',
      },
      { shape: this.shape },
    );
  }

  /** Frees the device memory at once instead of at garbage collection. */
  dispose(): void {
    if (this.#node.value !== null) freeNode(this.#node, 'dispose()');
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function leafOf(node: Node): Node {
  let leaf = node;
  while (leaf.op === 'assign' && leaf.inputs[0] !== undefined) leaf = leaf.inputs[0];
  if (leaf.op === 'input') return leaf;
  throw new TensorStateError(
    {
      asked: `to update a tensor computed by ${leaf.op} in place`,
      found: 'only leaves (tensors made from data) have contents of their own',
      todo: 'Assign to a leaf',
    },
    { op: leaf.op },
  );
}
