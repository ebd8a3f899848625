/**
 * Words that people search for, by the page or section that answers them. They are in the index beside the page's own
 * words.
 */
export const keywords: Readonly<Record<string, string>> = {
  '/guides/launch': 'torchrun mpirun slurm multi node cluster nproc spawn processes',
  '/guides/data': 'dataset dataloader batch shuffle epoch',
  '/guides/text-data':
    'tokenizer huggingface chat template packing parquet jsonl webdataset streaming metrics images imagefolder jpeg png vit resnet',
  '/guides/fine-tune':
    'fine-tune finetune lora qlora peft adapter hugging face pretrained weights checkpoint safetensors gguf llama bert',
  '/guides/serve':
    'serve inference vllm openai api paged attention kv cache continuous rolling batch rollout logprobs chat completions',
  '/guides/plan':
    'planner autotuner estimate cost model will it fit how long mfu simulate straggler',
  '/guides/memory': 'out of memory oom gradient checkpointing accumulation offload',
  '/guides/context-parallel':
    'long sequence context parallel cp ring attention zigzag ulysses usp packing alst sequence length',
  '/guides/cluster':
    'doctor top watch live straggler iftop htop ds_report nvidia-smi topo ibstat check host bandwidth latency ulimit',
  '/guides/slow-steps':
    'slow profiler torch.profiler schedule flame graph roofline mfu performance throughput speed fast tensorboard prometheus opentelemetry otlp csv metrics',
  '/guides/slow-links':
    'diloco local sgd streaming outer optimizer internet bandwidth torchft hivemind byzantine krum median federated compression',
  '/guides/distributed-tensors':
    'dtensor distribute_tensor shard replicate partial redistribute layout',
  '/guides/verify': 'wrong loss gradient silent bug correctness compare',
  '/guides/debugging': 'deadlock stuck timeout freeze hang nccl',
  '/guides/from-pytorch': 'pytorch torch migrate port convert',
  '/guides/from-deepspeed':
    'deepspeed deepspeed initialize ds_config engine zero migrate port convert',
  '/guides/from-others': 'accelerate horovod lightning fabric torchtitan migrate port convert',
  '/learn/one-rank': 'tutorial quickstart getting started training loop first example',
  '/learn/more-ranks': 'distributed data parallel ddp multi gpu several ranks',
  '/learn/sharding': 'fsdp zero sharding shard',
  '/learn/tensor-parallel': 'tensor parallel megatron',
  '/learn/pipelines': 'pipeline parallel gpipe',
  '/learn/checkpoints': 'resume restart fault tolerance elastic save checkpoint',
  '/learn/cluster': 'multi node several machines',
  '/reference/checkpoints#loadmodel':
    'hugging face huggingface transformers pretrained weights fine tune finetune finetuning fine-tuning load model',
  '/reference/nn/module#module-loadstatedict': 'loadStateDict load_state_dict restore weights',
  '/reference/random#manualseed': 'random seed reproducible deterministic',
  '/reference/checkpoints/files#exportmodel': 'save model export safetensors weights',
};

/** Splits names such as `crossEntropy` and `AdamW8bit` into words. */
const wordsOf = (name: string): string =>
  name.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2');

/** The words by which a section is found beside those of its text. */
export function keywordsOf(id: string, title: string): string {
  return `${keywords[id] ?? ''} ${/[a-z][A-Z]|[A-Z]{2}[a-z]/.test(title) ? wordsOf(title) : ''}`.trim();
}
