/**
 * The variables that launchers set for one of their processes. Long dumps are cut to the variables that could be
 * mistaken for those of another launcher.
 */
export const launchDumps = {
  /** `torchrun --nnodes 2 --nproc-per-node 2`, rank 3, after one restart. */
  torchrun: {
    RANK: '3',
    WORLD_SIZE: '4',
    LOCAL_RANK: '1',
    LOCAL_WORLD_SIZE: '2',
    GROUP_RANK: '1',
    GROUP_WORLD_SIZE: '2',
    ROLE_RANK: '3',
    ROLE_WORLD_SIZE: '4',
    ROLE_NAME: 'default',
    MASTER_ADDR: 'node0',
    MASTER_PORT: '29500',
    TORCHELASTIC_RESTART_COUNT: '1',
    TORCHELASTIC_MAX_RESTARTS: '3',
    TORCHELASTIC_RUN_ID: 'e4b3',
  },
  /** Open MPI 4.1.4: `mpirun -n 2`, rank 1. */
  openMpi: {
    OMPI_COMMAND: 'env',
    OMPI_COMM_WORLD_LOCAL_RANK: '1',
    OMPI_COMM_WORLD_LOCAL_SIZE: '2',
    OMPI_COMM_WORLD_NODE_RANK: '1',
    OMPI_COMM_WORLD_RANK: '1',
    OMPI_COMM_WORLD_SIZE: '2',
    OMPI_MCA_ess: '^singleton',
    OMPI_MCA_ess_base_jobid: '736624641',
    OMPI_MCA_ess_base_vpid: '1',
    OMPI_MCA_orte_ess_num_procs: '2',
    OMPI_MCA_orte_hnp_uri: '736624640.0;tcp://192.0.2.2:35673;tcp6://[fd00::2]:60303',
    OMPI_MCA_orte_num_nodes: '1',
    OMPI_MCA_pmix: '^s1,s2,cray,isolated',
    OMPI_UNIVERSE_SIZE: '2',
    PMIX_HOSTNAME: 'vm',
    PMIX_ID: '736624641.1',
    PMIX_NAMESPACE: '736624641',
    PMIX_RANK: '1',
  },
  /** MPICH 4.0.2: `mpiexec.hydra -n 2`, rank 1. */
  hydra: {
    HYDI_CONTROL_FD: '7',
    MPIR_CVAR_CH3_INTERFACE_HOSTNAME: 'vm',
    MPI_LOCALNRANKS: '2',
    MPI_LOCALRANKID: '1',
    PMI_FD: '8',
    PMI_RANK: '1',
    PMI_SIZE: '2',
  },
  /** Slurm 22.05: `srun -N 3 -n 5`, rank 3. */
  srun: {
    SLURMD_NODENAME: 'gnode09',
    SLURM_GTIDS: '3',
    SLURM_JOB_ID: '41',
    SLURM_JOB_NODELIST: 'gnode[08-10]',
    SLURM_JOB_NUM_NODES: '3',
    SLURM_LOCALID: '0',
    SLURM_NNODES: '3',
    SLURM_NODEID: '1',
    SLURM_NODELIST: 'gnode[08-10]',
    SLURM_NTASKS: '5',
    SLURM_PROCID: '3',
    SLURM_STEPID: '2',
    SLURM_STEP_ID: '2',
    SLURM_STEP_NODELIST: 'gnode[08-10]',
    SLURM_STEP_NUM_NODES: '3',
    SLURM_STEP_NUM_TASKS: '5',
    SLURM_STEP_TASKS_PER_NODE: '3,1(x2)',
    SLURM_TASKS_PER_NODE: '3,1(x2)',
    SLURM_TASK_PID: '19432',
  },
  /** Slurm 22.05: the script of `sbatch -n 2`, which is no task. */
  sbatch: {
    SLURMD_NODENAME: 'vm',
    SLURM_JOB_ID: '2',
    SLURM_JOB_NODELIST: 'vm',
    SLURM_LOCALID: '0',
    SLURM_NNODES: '1',
    SLURM_NODEID: '0',
    SLURM_NTASKS: '2',
    SLURM_PROCID: '0',
    SLURM_TASKS_PER_NODE: '2',
  },
  /** Pod 1 of 2 of a Kubeflow Trainer, which is also a pod of an Indexed Job. */
  kubeflow: {
    JOB_COMPLETION_INDEX: '1',
    PET_NNODES: '2',
    PET_NPROC_PER_NODE: '4',
    PET_NODE_RANK: '1',
    PET_MASTER_ADDR: 'job-node-0-0.job',
    PET_MASTER_PORT: '29500',
  },
  /** Pod 2 of 3 of a LeaderWorkerSet. */
  leaderWorkerSet: {
    LWS_LEADER_ADDRESS: 'set-0.set.default',
    LWS_GROUP_SIZE: '3',
    LWS_WORKER_INDEX: '2',
  },
  /** Pod 3 of an Indexed Job whose specification sets the rest. */
  kubernetes: {
    JOB_COMPLETION_INDEX: '3',
    NNODES: '4',
    MASTER_ADDR: 'job-0.service',
    MASTER_PORT: '29400',
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;
