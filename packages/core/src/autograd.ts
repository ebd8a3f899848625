// torch.autograd as one namespace. It has gradients as values, and functions with gradients of their own.
export { grad, jvp, vjp, type GradOptions, type Jvp, type Vjp } from './tensor/gradients.ts';
export {
  customFunction,
  type FunctionContext,
  type FunctionDefinition,
} from './tensor/custom-function.ts';
