import { ConfigError, type Node, type NodeValue, TensorStateError } from '@shardwise/core/extend';

/** The value that a loss has before its backward(). */
export function lossNotComputed(): NodeValue {
  const error = new TensorStateError({
    asked: 'the loss of a pipeline',
    found: 'its backward() has not been called, and stages compute the loss and gradients together',
    todo: 'Call loss.backward() first, or run the pass inside noGrad() to evaluate',
  });
  return { kind: 'failed', error };
}

/** The value that an output has on ranks that do not compute it. */
export function outputOnOtherRank({ shape }: Node, axis: string, rank: number): NodeValue {
  const error = new TensorStateError(
    {
      asked: `an output of a pipeline, of shape [${shape.join(', ')}]`,
      found: `only rank ${rank} of '${axis}' has it, because that rank computes its stage`,
      todo: 'Read it on that rank, or call await onEveryRank(output) on all ranks',
    },
    { axis, rank },
  );
  return { kind: 'failed', error };
}

export function backwardTwiceError(): TensorStateError {
  return new TensorStateError({
    asked: 'backward() of the loss of a pipeline',
    found: 'it was called before: the stages have dropped what it needs',
    todo: 'Build the loss again by another forward pass, or add up losses before backward()',
  });
}

export function unknownLeafError({ shape }: Node): ConfigError {
  return new ConfigError(
    {
      asked: 'a training pass of a pipeline',
      found: `a tensor of shape [${shape.join(', ')}] that requires a gradient and is not a parameter of the model, so each rank would have its own copy`,
      todo: 'Make it a parameter of the model',
    },
    { shape },
  );
}

export function staleBufferError({ shape }: Node, writer: number, reader: number): ConfigError {
  return new ConfigError(
    {
      asked: 'a training pass of a pipeline',
      found: `a buffer of shape [${shape.join(', ')}] that stage ${writer} updates and stage ${reader} reads, on another rank`,
      todo: 'Cut where both are in one stage',
    },
    { writer, reader, shape },
  );
}

/** Makes backward() throw when it reaches an output, because no stage would be given the output's gradient. */
export function refuseBackward(output: Node): void {
  output.requiresGrad = true;
  output.sink = {
    accumulate() {
      throw new ConfigError(
        {
          asked: 'backward() from an output of a pipeline',
          found: `one of shape [${output.shape.join(', ')}] of an evaluation; a loss that is built outside of the stages cannot reach them`,
          todo: 'Give the loss to the pipeline, and the targets to forward(): pipeline({ loss, … })',
        },
        { shape: output.shape },
      );
    },
  };
}
