import { checkBackward } from '../autograd/check-backward.ts';
import { where } from '../graph/ops/elementwise.ts';
import { noGrad } from '../graph/create-node.ts';
import { isOp, localOf, type Node } from '../graph/node.ts';
import { unknownFault } from '../graph/row-counts.ts';
import { brandMember } from '../member-brand.ts';
import type { PageStore } from '../paging/page.ts';
import { describeTensor } from '../print/describe-tensor.ts';
import { inspecting } from '../print/inspect.ts';
import { currentSession, isComputing } from '../rank.ts';
import { addPending, freeWhenIssued, isPiledUp } from '../realize/pending/pending.ts';
import { noteValue } from '../realize/pending/small-values.ts';
import { currentScope, within } from '../ambient.ts';
import { replicated, shardedAxes } from '../layout/layout.ts';
import { elementCount } from '../base/shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import { leafOfConstant } from './constant-leaf.ts';
import {
  Gradient,
  type GradientHook,
  type GradientReduction,
  type LeafGradient,
  type Update,
} from './gradient.ts';
import { noNumber, notTrained, replacedError } from './handle-errors.ts';
import type { HostData } from './host-data.ts';
import { leafOf, requireFloats, trainableNodes, updateLeaf } from './leaf.ts';
import type { Placement } from './placement.ts';
import { readItem, readValues, toAwait } from './read-values.ts';
import { runBackward } from './run-backward.ts';
import { averagedLater, type Updater } from './updater.ts';

const nowhere: readonly string[] = [];

/**
 * Makes the assignments inside `body` conditional: a tensor keeps its old contents if `condition` turns out to be true.
 * The run that computes the assignment also computes the condition. Optimizers skip a step this way, on all ranks
 * alike. Null means no condition. Shape: condition bool [].
 */
export function skipAssignmentsIf<T>(condition: Node | null, body: () => T): T {
  return within('skipAssignmentsIf', { skipsUpdatesIf: condition }, body);
}

/**
 * The state of a tensor: its node, its gradient and its data. The operations are in Tensor. If the ranks share the tensor
 * out, its part has all of this, and its placement says how the whole is read and written.
 */
export class TensorHandle {
  static {
    const inspects = inspecting<TensorHandle>((tensor, form) =>
      describeTensor(tensor, form, isComputing()),
    );
    Object.defineProperties(this.prototype, inspects);
    brandMember(this.prototype, 'tensor');
  }

  #node: Node;
  readonly #placement: Placement<TensorHandle> | null;
  #varyingOver: readonly string[] = nowhere;
  #gradient: LeafGradient | null;
  #updater: Updater | null = null;
  /** The name that a model had this tensor under, if the model now has another tensor in its place. Else null. */
  #formerName: string | null = null;

  /** `gradient` collects the gradients, if not in the usual way. `placement`: how the ranks share the tensor out. */
  constructor(
    node: Node,
    gradient: LeafGradient | null = null,
    placement: Placement<TensorHandle> | null = null,
  ) {
    this.#node = node;
    this.#gradient = gradient;
    this.#placement = placement;
    noteValue(node);
  }

  /** The node that holds the contents. The `node` of a part or of a tensor with a placement may be another one. */
  get contents(): Node {
    return this.#node;
  }

  /** The node that expressions of this tensor read now. Throws TensorStateError if the tensor was replaced. */
  get node(): Node {
    this.checkNotReplaced();
    return this.#placement === null ? this.#node : this.#placement.read();
  }

  /**
   * What has the contents and the gradient: this tensor, or this rank's part of it. Throws TensorStateError if the tensor
   * was replaced.
   */
  get #keeper(): TensorHandle {
    this.checkNotReplaced();
    return this.#placement?.part ?? this;
  }

  /** Returns what this rank keeps of a value. Shape: -> that of the keeper. */
  #kept(value: Node): Node {
    return this.#placement?.partOf(value) ?? value;
  }

  /** Makes every use of this tensor fail from now on, because its model has another tensor under `name`. */
  markReplaced(name: string): void {
    this.#formerName = name;
  }

  /** Throws TensorStateError if a model has put another tensor in the place of this one. */
  checkNotReplaced(): void {
    if (this.#formerName === null) return;
    throw replacedError(this.#formerName, this.#node.shape);
  }

  get shape(): Shape {
    this.checkNotReplaced();
    return this.#node.shape;
  }

  get dtype(): DType {
    this.checkNotReplaced();
    return this.#placement?.dtype ?? this.#node.dtype;
  }

  /** Number of dims. */
  get ndim(): number {
    return this.shape.length;
  }

  /** Number of elements. */
  get numel(): number {
    return elementCount(this.shape);
  }

  /** How this tensor lies on the mesh: which part it is of the tensor that the ranks hold together. */
  get layout(): Layout {
    const { distributed } = this.contents;
    if (distributed !== null) return distributed.layout;
    const { varyingOver } = this;
    const whole = replicated(this.wholeShape);
    return varyingOver.length === 0 ? whole : { ...whole, varying: varyingOver };
  }

  /** The shape of the tensor that the ranks hold together. For a tensor that is not a part, it is its own shape. */
  get wholeShape(): Shape {
    return this.contents.shape;
  }

  /** The mesh axes whose ranks hold different parts of the whole that this tensor is a part of. */
  get shardedOver(): readonly string[] {
    return shardedAxes(this.layout);
  }

  /** The mesh axes whose ranks each have their own value of this tensor. */
  get varyingOver(): readonly string[] {
    return this.#keeper.#varyingOver;
  }

  /**
   * Declares that each rank of these mesh axes has its own value, as when ranks train without communication. A
   * checkpoint then keeps all of the values. An empty list declares that all ranks have the same value.
   */
  markVarying(axes: readonly string[]): this {
    this.#keeper.#varyingOver = axes;
    return this;
  }

  get requiresGrad(): boolean {
    return this.#keeper.#node.requiresGrad;
  }

  /**
   * Makes a leaf train, or stops it. A leaf that stops training keeps its gradient and its hooks. Throws
   * TensorStateError for a tensor that is computed from others, and DTypeError for integers.
   */
  requiresGrad_(requiresGrad = true): this {
    const own = this.#keeper;
    if (requiresGrad) requireFloats(own.#node);
    own.#takeContents();
    const nodes = trainableNodes(own.#node);
    const sink = requiresGrad ? this.#collected() : null;
    for (const node of nodes) {
      node.requiresGrad = requiresGrad;
      node.sink = sink;
    }
    return this;
  }

  /** Turns a constant, such as the result of `zeros`, into a leaf, so that it can train and be updated. */
  #takeContents(): void {
    const node = this.#node;
    if (node.value === null && isOp(node, 'constant')) this.#node = leafOfConstant(node) ?? node;
  }

  #collected(): LeafGradient {
    return (this.#keeper.#gradient ??= new Gradient());
  }

  /** The gradient's node. It is null before backward() and after zeroGrad(). */
  get gradientNode(): Node | null {
    const own = this.#keeper.#gradient?.node ?? null;
    return own && (this.#placement?.wholeOf(own) ?? own);
  }

  /** Replaces the gradient, for example by its mean over ranks. */
  setGradientNode(node: Node): void {
    const own = this.#keeper;
    if (own.#gradient === null) throw notTrained('to set the gradient', own.shape);
    if (this.#updater?.averagesLater === true) throw averagedLater(this.#updater);
    own.#gradient.replace(this.#kept(node));
  }

  /** The object that updates this tensor in the place of optimizers. null: optimizers update it. */
  get updater(): Updater | null {
    return this.#updater;
  }

  set updater(updater: Updater | null) {
    this.#updater = updater;
  }

  /** The nodes of the gradient that are kept in memory. */
  get keptGradients(): readonly Node[] {
    return this.#keeper.#gradient?.kept ?? [];
  }

  /**
   * From now on, `reduction` of a strategy takes the gradients of this leaf, which need not train yet. Returns the
   * gradient.
   */
  reduceGradient(reduction: GradientReduction): Gradient {
    return this.#collected().reduceBy(reduction);
  }

  /**
   * Strategies call this to have `check` called with the loss of each backward pass that reaches this leaf, before any
   * gradient is computed. null removes it.
   */
  checkLosses(check: ((loss: Node) => void) | null): void {
    this.#collected().checkLoss = check;
  }

  /** Throws TensorStateError if the gradient of this leaf is not the one that `update` needs. */
  checkUpdate(update: Update): void {
    this.#keeper.#gradient?.checkUpdate(update);
  }

  zeroGrad(): void {
    this.#keeper.#gradient?.clear();
  }

  /**
   * From now on, keeps gradients in a store under `name`. Each gradient leaves the device as soon as it is computed. A
   * run that reads it has it on the device for as long as the run needs it.
   */
  pageGradient(name: string, store: PageStore): void {
    this.#collected().pages = { store: currentSession().numberOf(store), name };
  }

  /** Implements registerPostAccumulateGradHook of Tensor. */
  onAccumulated(hook: GradientHook): () => void {
    if (!this.requiresGrad) throw notTrained('to hook the gradient', this.#keeper.shape);
    const { hooks } = this.#collected();
    hooks.add(hook);
    return () => hooks.delete(hook);
  }

  /** Implements registerHook of Tensor. */
  addGradientHook(change: (gradient: Node) => Node): () => void {
    if (this.#placement !== null) throw this.#placement.hookError(this.shape);
    const node = localOf(this.node);
    if (!node.requiresGrad) throw notTrained('to hook the gradient', this.shape);
    // A leaf and the node of its pending update share one set of hooks.
    const leaf = node.op === 'assign' ? leafOf(node) : node;
    const hooks = (leaf.gradientHooks ??= new Set());
    node.gradientHooks = hooks;
    const hook = this.node.distributed?.hookOf(change) ?? change;
    hooks.add(hook);
    return () => hooks.delete(hook);
  }

  /**
   * Adds the gradients of this scalar to the leaves that require them. A tensor of several elements needs `gradient`,
   * the gradient of the tensor itself. Gradients of several losses, and of repeated calls for one loss, add up in any
   * order: the graph is kept, as with PyTorch's `retain_graph`, until tensors of it are updated. The call only builds
   * the graph. The next realization computes the loss and the gradients together.
   *
   * Throws ShapeError for a tensor of several elements without `gradient`, and for a `gradient` of another shape.
   * Throws TensorStateError if nothing requires a gradient, if the scalar was computed from a gradient that is not
   * differentiable, or if a value that a gradient reads was updated since the forward pass. Throws LayoutError for a
   * gradient whose axis types do not fit the declared ones of the leaf, and for a loss that differs between ranks which
   * have different layers.
   */
  backward(gradient?: TensorHandle): void {
    checkBackward(this.node, gradient?.shape);
    const root = localOf(this.node);
    const from = gradient?.node ?? null;
    runBackward(root, from && (this.node.distributed?.gradientPart(from) ?? from));
    if (root.value === null) addPending(root);
    if (isPiledUp()) currentSession().flush();
  }

  /**
   * Gives this leaf new contents, in place, at the next realization. Expressions that were built before keep the old
   * value if the same realization computes them. Shape: value N -> N.
   */
  assign(value: TensorHandle): this {
    const own = this.#keeper;
    const { skipsUpdatesIf: condition } = currentScope();
    const kept = this.#kept(value.node);
    own.store(condition === null ? kept : noGrad(() => where(condition, own.node, kept)));
    return this;
  }

  /** Stores new contents. `assign` calls this after it has applied the condition of skipAssignmentsIf. Shape: value N -> N. */
  store(value: Node): this {
    const own = this.#keeper;
    this.#updater?.checkAssign();
    if (own !== this) {
      own.store(this.#kept(value));
      return this;
    }
    this.#takeContents();
    updateLeaf(this.#node, value, (before, after) => {
      if (this.#node === before) this.#node = after;
    });
    if (isPiledUp()) currentSession().flush();
    return this;
  }

  /** Keeps the contents on the device between steps: parameters, buffers, optimizer state. */
  makeResident(): this {
    this.#takeContents();
    leafOf(this.#node).resident = true;
    return this;
  }

  /**
   * Makes the next realization compute this tensor, too. A metric is then computed together with its step and can be
   * read after it.
   */
  retain(): this {
    const node = localOf(this.#node);
    if (node.value === null) addPending(node);
    return this;
  }

  /**
   * From now on, keeps the contents in a store under `name` instead of on the device. A run that reads them has them
   * on the device for as long as the run needs them. An update brings them back to the device.
   */
  async pageOut(name: string, store: PageStore): Promise<void> {
    const own = this.#keeper;
    if (own.#node.value === null) await currentSession().realize([own.#node]);
    await currentSession().pageOut(leafOf(own.#node), name, store);
  }

  /** Computes the tensor and everything that is pending, and keeps the tensor on the device. */
  async realize(): Promise<this> {
    const own = this.#keeper;
    if (own !== this) {
      await own.realize();
      return this;
    }
    const node = localOf(this.node);
    if (node.rowCount !== null) {
      throw unknownFault('realize', [node], 'what is kept has a size that is known');
    }
    await currentSession().realize([node]);
    return this;
  }

  /** The elements, row by row. f16 and bf16 are raw bits. Computes the tensor if necessary. */
  data(): Promise<HostData> {
    return this.#toAwait(async () => readValues(this.node.distributed?.whole ?? this.node));
  }

  /** The value of a tensor of one element. Throws ShapeError for other sizes, and DTypeError for an i64 beyond 2^53. */
  item(): Promise<number> {
    return this.#toAwait(async () => readItem(this, () => this.data()));
  }

  /** A promise that is not awaited is no number: an operator on it throws TensorStateError, as on the tensor itself. */
  #toAwait<Value>(read: () => Promise<Value>): Promise<Value> {
    return toAwait(read(), () => Number(this));
  }

  /**
   * Describes the tensor: its dtype, shape, part and place, and its values if they are in the host's memory, printed
   * like PyTorch does. Computes nothing, and waits for nothing.
   */
  toString(): string {
    return describeTensor(this, 'lines', isComputing());
  }

  /** JSON.stringify writes the description of a tensor, because its values may not be computed yet. */
  toJSON(): string {
    return this.toString();
  }

  /** Throws TensorStateError if an operator asks for a number, as `loss < 0.1` and `x * 2` do. */
  [Symbol.toPrimitive](hint: 'string' | 'number' | 'default'): string {
    if (hint !== 'number') return this.toString();
    throw noNumber(this.constructor.name, this.shape);
  }

  /** Frees the device memory at once instead of at garbage collection. */
  dispose(): void {
    const own = this.#placement?.part;
    if (own !== undefined) {
      own.dispose();
      return;
    }
    const node = localOf(this.#node);
    if (node.value !== null) freeWhenIssued(node, 'dispose()');
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
