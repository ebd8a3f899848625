import { ConfigError, type Node } from '@shardwise/core/extend';

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
