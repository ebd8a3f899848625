import { TensorStateError } from '../spec/errors.ts';

/** A step of an optimizer whose parameters have an updater. */
export interface UpdateRequest {
  /** The name of the class of the optimizer. */
  readonly optimizer: string;
  /** The parameter groups, each with its parameters and settings. */
  readonly groups: readonly UpdatedGroup[];
  /** Updates the parameters on this rank by the optimizer's own rule. */
  readonly updateHere: () => Promise<void>;
}

/** A parameter group of an `UpdateRequest`. */
interface UpdatedGroup {
  readonly params: readonly object[];
  readonly settings: Readonly<Record<string, unknown>>;
}

/** An object that carries out the steps of optimizers in the place of the optimizers, such as parameter servers. */
export interface Updater {
  /** The name of the updater in messages. */
  readonly name: string;
  /** Whether the optimizer's states are kept by the updater, so that this rank has none to save. */
  readonly keepsStates: boolean;
  /** Whether the updater averages this rank's gradients with the gradients of other ranks after step() has begun. */
  readonly averagesLater: boolean;
  /** Called before each update of a parameter's contents. Throws if only the updater may write. */
  checkAssign(): void;
  step(request: UpdateRequest): Promise<void>;
}

/** The error for changing a gradient that the updater averages afterwards. */
export function averagedLater({ name }: Updater): TensorStateError {
  return new TensorStateError(
    {
      asked: 'to change a gradient before the update',
      found: `the gradient of this rank alone, which ${name} average with those of the others in step()`,
      todo: 'Leave gradients as they are, or use a consistency that is not synchronous',
    },
    { updater: name },
  );
}
